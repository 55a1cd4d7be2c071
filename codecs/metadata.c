/* metadata.c - keeps the ICC profile, EXIF and XMP of a file for its outputs. */
#include <stdlib.h>
#include <string.h>

#include "codecs/codec_impl.h"

/* ---- in image_info -------------------------------------------------------------------------- */

static void drop(uint8_t **bytes)
{
    free(*bytes);
    *bytes = NULL;
}

void image_info_drop_metadata(struct image_info *info)
{
    drop(&info->icc);
    drop(&info->exif);
    drop(&info->xmp);
    drop(&info->notice_exif);
    drop(&info->notice_xmp);
}

void image_info_clear_icc(struct image_info *info)
{
    drop(&info->icc);
    info->icc_bytes = 0;
}

void image_info_clear(struct image_info *info)
{
    image_info_drop_metadata(info);
    info->icc_bytes = info->exif_bytes = info->xmp_bytes = 0;
    info->notice_exif_bytes = info->notice_xmp_bytes = 0;
}

size_t image_info_metadata_bytes(const struct image_info *info, unsigned kinds)
{
    return (kinds & METADATA_ICC ? info->icc_bytes : 0) +
           (kinds & METADATA_EXIF ? info->exif_bytes : 0) +
           (kinds & METADATA_XMP ? info->xmp_bytes : 0) +
           (kinds & METADATA_COPYRIGHT ? info->notice_exif_bytes + info->notice_xmp_bytes : 0);
}

/* ---- from a file ---------------------------------------------------------------------------- */

bool codec_keep(const uint8_t *bytes, size_t length, size_t most, uint8_t **to, size_t *to_length)
{
    if (length == 0 || length > most)
        return true;
    *to = malloc(length);
    if (!*to)
        return false;
    memcpy(*to, bytes, length);
    *to_length = length;
    return true;
}

bool codec_keep_icc(const uint8_t *icc, size_t bytes, struct image_info *info)
{
    return !codec_icc_is_valid(icc, bytes) ||
           codec_keep(icc, bytes, ICC_BYTES_MAX, &info->icc, &info->icc_bytes);
}

bool codec_keep_exif(const struct codec_limits *limits, const uint8_t *blob, size_t bytes,
                     struct image_info *info)
{
    if (info->density.unit == DENSITY_NONE)
        info->density = exif_density(blob, bytes);
    int orientation = limits->keeps_orientation ? info->orientation : 1;
    if (limits->metadata & METADATA_EXIF && !info->exif &&
        !exif_copy(blob, bytes, orientation, &info->exif, &info->exif_bytes))
        return false;
    if (info->exif)
        info->exif_space = exif_colour_space(info->exif, info->exif_bytes);
    return !(limits->metadata & METADATA_COPYRIGHT) || info->notice_exif ||
           exif_notice(blob, bytes, &info->notice_exif, &info->notice_exif_bytes);
}

bool codec_keep_orientation(const struct codec_limits *limits, struct image_info *info)
{
    return !(limits->metadata & METADATA_EXIF) || !limits->keeps_orientation || info->exif ||
           info->orientation <= 1 ||
           exif_copy(NULL, 0, info->orientation, &info->exif, &info->exif_bytes);
}

bool codec_keep_xmp(const struct codec_limits *limits, const uint8_t *packet, size_t bytes,
                    struct image_info *info)
{
    if (memchr(packet, 0, bytes) != NULL)
        return true;
    if (limits->metadata & METADATA_XMP && !info->xmp &&
        !xmp_copy(packet, bytes, &info->xmp, &info->xmp_bytes))
        return false;
    return !(limits->metadata & METADATA_COPYRIGHT) || info->notice_xmp ||
           xmp_notice(packet, bytes, &info->notice_xmp, &info->notice_xmp_bytes);
}

bool codec_keep_iptc(const struct codec_limits *limits, const uint8_t *resources, size_t bytes,
                     struct image_info *info)
{
    return !(limits->metadata & METADATA_COPYRIGHT) || info->notice_xmp ||
           iptc_notice(resources, bytes, &info->notice_xmp, &info->notice_xmp_bytes);
}

/* ---- profiles ------------------------------------------------------------------------------- */

/* Checks the size and the signature in the header: ICC.1:2022, section 7.2. */
bool codec_icc_is_valid(const uint8_t *icc, size_t bytes)
{
    enum { header_bytes = 128, tag_count_bytes = 4, signature_at = 36 };
    return bytes >= header_bytes + tag_count_bytes && bytes <= ICC_BYTES_MAX &&
           codec_u32(icc) == bytes && memcmp(icc + signature_at, "acsp", 4) == 0;
}

/* Whether the profile is for this colour space. */
static bool is_for(const uint8_t *icc, size_t bytes, const char *space)
{
    enum { space_at = 16 };
    return codec_icc_is_valid(icc, bytes) && memcmp(icc + space_at, space, 4) == 0;
}

bool codec_icc_is_rgb(const uint8_t *icc, size_t bytes)
{
    return is_for(icc, bytes, "RGB ");
}

bool image_info_icc_is_rgb(const struct image_info *info)
{
    return info->icc && is_for(info->icc, info->icc_bytes, "RGB ");
}

bool image_info_icc_is_cmyk(const struct image_info *info)
{
    return info->icc && is_for(info->icc, info->icc_bytes, "CMYK");
}

void codec_fit_icc(struct image_info *info, bool is_gray)
{
    const char *wanted = info->cmyk ? "CMYK" : "RGB ";
    if (info->icc && !is_for(info->icc, info->icc_bytes, wanted) &&
        !(is_gray && is_for(info->icc, info->icc_bytes, "GRAY")))
        image_info_clear_icc(info);
}

/* ---- density -------------------------------------------------------------------------------- */

/* Converts pixels per unit to 1/10000 pixels per metre. */
static uint64_t per_metre(uint32_t number, enum density_unit unit)
{
    enum { scale = 10000 };
    uint64_t scaled = (uint64_t)number * scale;
    if (unit == DENSITY_INCH)
        return scaled * 5000 / 127; /* an inch is 127/5000 m */
    return unit == DENSITY_CM ? 100 * scaled : scaled;
}

static uint64_t convert(uint32_t number, enum density_unit from, enum density_unit to)
{
    uint64_t one = per_metre(1, to);
    return from == to ? number : (per_metre(number, from) + one / 2) / one;
}

bool codec_convert_density(const struct image_density *from, enum density_unit unit, uint32_t most,
                           struct image_density *to)
{
    if (from->unit == DENSITY_NONE)
        return false;
    uint64_t x = convert(from->x, from->unit, unit), y = convert(from->y, from->unit, unit);
    *to = (struct image_density){(uint32_t)x, (uint32_t)y, unit};
    return x >= 1 && x <= most && y >= 1 && y <= most;
}

/* ---- for an output -------------------------------------------------------------------------- */

/* Replaces the digit in tiff:Orientation="6" and in <tiff:Orientation>6</tiff:Orientation>. */
static void set_orientation(uint8_t *xmp, size_t bytes, int orientation)
{
    static const char name[] = "tiff:Orientation";
    enum { length = sizeof name - 1 };
    for (uint8_t *at = xmp, *end = xmp + bytes;
         (at = memmem(at, (size_t)(end - at), name, length)) != NULL;) {
        at += length;
        while (at < end && memchr("=>\"' ", *at, 5) != NULL)
            at++;
        if (end - at >= 2 && at[0] >= '1' && at[0] <= '8' && memchr("\"'<", at[1], 3) != NULL)
            *at = (uint8_t)('0' + orientation);
    }
}

void image_info_fit_metadata(struct image_info *info, const struct metadata_fit *fit)
{
    if (info->exif)
        exif_fit(info->exif, info->exif_bytes, info->exif_space, fit);
    if (info->xmp && (fit->upright || fit->orientation > 0))
        set_orientation(info->xmp, info->xmp_bytes, fit->upright ? 1 : fit->orientation);
}
