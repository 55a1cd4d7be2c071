/* fuzz_probe.c - any bytes as an image file: detects the format and reads the header. */
#include <string.h>

#include "tests/fuzz/fuzz.h"

/* A PNG's inflated profile and its copy, or the boxes and metadata of an AVIF, plus the memory of
 * the libraries. */
#define PROBE_BYTES_MAX (32 * MIB)

static const struct codec_limits limits = {.pixels_max = PIXELS_DEFAULT,
                                           .side_max = SIDE_DEFAULT,
                                           .jpeg_scans_max = JPEG_SCANS_DEFAULT,
                                           .jpeg_warnings_max = JPEG_WARNINGS_MAX,
                                           .metadata = METADATA_ALL};

static void check_info(const struct image_info *info)
{
    FUZZ_MUST(info->width >= 1 && info->width <= limits.side_max);
    FUZZ_MUST(info->height >= 1 && info->height <= limits.side_max);
    FUZZ_MUST((uint64_t)info->width * info->height <= limits.pixels_max);
    FUZZ_MUST(info->channels == 1 || info->channels == 3 || info->channels == 4);
    FUZZ_MUST(!info->ycc || info->channels == 3);
    FUZZ_MUST(info->orientation >= 1 && info->orientation <= ORIENTATION_MAX);
    FUZZ_MUST(info->codec_bytes > 0);
    FUZZ_MUST((info->icc != NULL) == (info->icc_bytes > 0));
    FUZZ_MUST(info->icc_bytes <= ICC_BYTES_MAX);
    FUZZ_MUST((info->exif != NULL) == (info->exif_bytes > 0));
    FUZZ_MUST((info->xmp != NULL) == (info->xmp_bytes > 0));
    FUZZ_MUST(info->exif_bytes <= EXIF_KEPT_BYTES_MAX && info->xmp_bytes <= XMP_BYTES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct image_info info;
    struct error error = {0};
    struct codec_context *context = fuzz_codec();
    memory_peak_start();
    enum status status = codec_probe(context, bytes, length, &limits, &info, &error);
    FUZZ_MUST(memory_peak_end() <= PROBE_BYTES_MAX);
    fuzz_check_error(status, &error);
    FUZZ_MUST(info.format == codec_sniff(bytes, length));
    FUZZ_MUST(status == STATUS_UNSUPPORTED_FORMAT || info.format != NULL);
    if (status == STATUS_OK)
        check_info(&info);
    image_info_clear(&info);
    return 0;
}

/* 16 MB in segments of one profile, and 23 MB in other segments that are kept. */
static struct picture_file many_segments(void)
{
    enum { segments = 600, profile_segments = 250, segment_bytes = 65002 };
    struct picture_file file = picture_jpeg(&(struct picture_jpeg){.width = 9, .height = 7});
    uint8_t *bytes = calloc(segments, segment_bytes);
    FUZZ_MUST(bytes != NULL);
    for (int i = 0; i < segments; i++) {
        uint8_t *at = bytes + (size_t)i * segment_bytes;
        memcpy(at, "\xFF\xE2\xFD\xE8" "ICC_PROFILE", 16);
        at[1] = i < profile_segments ? 0xE2 : 0xE1;
        at[16] = (uint8_t)(i + 1);
        at[17] = profile_segments;
    }
    picture_insert(&file, 2, bytes, (size_t)segments * segment_bytes);
    free(bytes);
    return file;
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    struct picture_file icc = picture_icc(200, "RGB ");
    fuzz_give_file(give, context, "empty", picture_empty());
    fuzz_give_file(give, context, "text", picture_text());
    fuzz_give_file(give, context, "photo.jpg",
              picture_jpeg(&(struct picture_jpeg){
                  .width = 9, .height = 7, .orientation = 6, .icc = icc.bytes,
                  .icc_bytes = icc.length}));
    fuzz_give_file(give, context, "progressive.jpg",
              picture_jpeg(&(struct picture_jpeg){.width = 9, .height = 7, .progressive = true}));
    fuzz_give_file(give, context, "photo.png",
              picture_png(&(struct picture_png){
                  .width = 9, .height = 7, .colour_type = 2, .orientation = 6, .icc = icc.bytes,
                  .icc_bytes = icc.length}));
    fuzz_give_file(give, context, "palette.png",
              picture_png(&(struct picture_png){
                  .width = 9, .height = 7, .colour_type = 3, .bit_depth = 4,
                  .transparent = true}));
    fuzz_give_file(give, context, "segments.jpg", many_segments());
    fuzz_give_file(give, context, "huge.jpg", picture_jpeg_huge(65500, 65500));
    fuzz_give_file(give, context, "huge.png", picture_png_huge(50000, 50000));
    fuzz_give_file(give, context, "bomb-text.png", picture_png_ztxt_bomb());
    fuzz_give_file(give, context, "bomb-profile.png", picture_png_iccp_bomb());
    give(context, "header.webp", "RIFF\x18\0\0\0WEBPVP8L\x0C\0\0\0\x2F\xFE\xBF\xFF\x0F\0\0\0", 25);
    give(context, "header.avif", "\0\0\0\x14" "ftypavif\0\0\0\0avif\0\0\0\x08meta", 28);
    picture_free(&icc);
}
