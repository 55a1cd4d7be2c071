/* tiff.c - reads the header of a TIFF (tiff_impl.h). */
#ifdef GPUIMGD_TIFF

#include "codecs/confined/tiff/tiff_impl.h"

static void give_tag(TIFF *tiff, uint32_t tag, struct confined_results *results, uint64_t *bytes)
{
    uint32_t count = 0;
    void *data = NULL;
    if (TIFFGetField(tiff, tag, &count, &data) && data)
        (void)confined_give(results, data, count, bytes);
}

/* Gives IPTC of its own tag as a resource of Photoshop, which other formats have. */
static void give_iptc(const struct tiff_numbers *numbers, uint64_t directory,
                      struct confined_results *results, struct codec_reply *reply)
{
    enum { head_bytes = 12 };
    size_t bytes;
    const uint8_t *iptc = tiff_find_bytes(numbers, directory, TIFFTAG_RICHTIFFIPTC, &bytes);
    uint8_t head[head_bytes] = {'8', 'B', 'I', 'M', 4, 4};
    uint64_t ignored = 0;
    if (!iptc || results->left < head_bytes + bytes)
        return;
    for (int i = 0; i < 4; i++)
        head[8 + i] = (uint8_t)(bytes >> 8 * (3 - i));
    if (confined_give(results, head, head_bytes, &ignored) &&
        confined_give(results, iptc, bytes, &ignored))
        reply->iptc_bytes = head_bytes + bytes;
}

static void give_metadata(TIFF *tiff, const struct tiff_numbers *numbers, uint64_t directory,
                          const struct codec_call *call, struct confined_results results,
                          struct codec_reply *reply)
{
    uint16_t unit = RESUNIT_INCH;
    (void)TIFFGetField(tiff, TIFFTAG_RESOLUTIONUNIT, &unit);
    give_tag(tiff, TIFFTAG_ICCPROFILE, &results, &reply->icc_bytes);
    if (call->metadata & METADATA_EXIF) {
        reply->exif_bytes =
            tiff_write_exif(numbers, directory, unit != RESUNIT_NONE, results.to, results.left);
        results.to += reply->exif_bytes;
        results.left -= reply->exif_bytes;
    }
    if (call->metadata & METADATA_XMP) {
        give_tag(tiff, TIFFTAG_XMLPACKET, &results, &reply->xmp_bytes);
        give_tag(tiff, TIFFTAG_PHOTOSHOP, &results, &reply->iptc_bytes);
        if (reply->iptc_bytes == 0)
            give_iptc(numbers, directory, &results, reply);
    }
}

static void read_info(TIFF *tiff, const struct tiff_numbers *numbers, uint64_t directory,
                      const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct tiff_layout layout;
    uint16_t orientation = ORIENTATION_TOPLEFT;
    if (!tiff_read_layout(tiff, numbers, directory, &layout, reply))
        return;
    (void)TIFFGetField(tiff, TIFFTAG_ORIENTATION, &orientation);
    reply->width = layout.width;
    reply->height = layout.height;
    reply->channels = layout.channels;
    reply->is_gray = layout.colours == 1 && layout.photometric != PHOTOMETRIC_PALETTE;
    reply->is_cmyk = tiff_is_cmyk(&layout);
    reply->is_deep = tiff_is_deep(&layout);
    reply->orientation = orientation >= 1 && orientation <= ORIENTATION_MAX ? orientation : 1;
    bool has_scans = layout.compression == COMPRESSION_JPEG && tiff_has_scans(tiff, numbers);
    reply->decode_bytes += tiff_decode_bytes(&layout, call->file_bytes, has_scans);
    give_metadata(tiff, numbers, directory, call, confined_results_of(call, region), reply);
}

/* Reserves memory for the values of tags: libtiff has two copies of each while it reads it. Some
 * writers let two tags share a value, but many tags could share a large one. */
static bool reserve_tags(const struct tiff_numbers *numbers, uint64_t directory,
                         struct codec_reply *reply)
{
    uint64_t bytes = tiff_tags_bytes(numbers, directory), size = numbers->source->size;
    if (bytes > size + MIB) {
        confined_fail(reply, STATUS_DECODE_LIMIT,
                      "the tags of the TIFF have values of %llu bytes, more than its %llu bytes",
                      (unsigned long long)bytes, (unsigned long long)size);
        return false;
    }
    reply->decode_bytes = 2 * bytes;
    return true;
}

static void tiff_probe(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct confined_source source = confined_open(call, region, CODEC_KEPT_BYTES_MAX);
    struct tiff_numbers numbers;
    if (!tiff_open_numbers(&source, &numbers)) {
        confined_fail(reply, STATUS_DECODE_FAILED, "the TIFF's header is incomplete");
        return;
    }
    uint64_t directory = tiff_find_page(&numbers, call->page, reply);
    if (directory == 0 || !reserve_tags(&numbers, directory, reply))
        return;
    TIFF *tiff = tiff_open_directory(&source, directory, CODEC_METADATA_BYTES_MAX, false, reply);
    if (!tiff)
        return;
    read_info(tiff, &numbers, directory, call, region, reply);
    TIFFClose(tiff);
}

static bool can(bool writes)
{
    return !writes;
}

const struct confined_codec confined_tiff = {
    .can = can, .probe = tiff_probe, .decode = tiff_decode};

#endif
