/*
 * segments.c - finds the metadata in the header of a JPEG.
 *
 * libjpeg calls on_segment for segments that may have metadata, and on_segment notes their places
 * in the file. libjpeg itself would copy each of them, however many and large they are.
 */
#include <stdlib.h>
#include <string.h>

#include "codecs/jpeg/jpeg_state.h"

/* The head of a part of an ICC profile: a name, the number of the part, and the number of parts. */
#define ICC_HEAD_BYTES (sizeof JPEG_ICC_NAME + 2)

void jpeg_count_segment(struct jpeg_state *state)
{
    if (++state->segments_seen > JPEG_SEGMENTS_MAX)
        codec_fail(state, STATUS_DECODE_LIMIT,
                   "the JPEG has more than %d APPn and COM segments, which is the limit",
                   JPEG_SEGMENTS_MAX);
}

static bool is_named(const uint8_t *bytes, size_t length, const char *name, size_t name_bytes)
{
    return codec_has_bytes(bytes, length, 0, name, name_bytes);
}

/* Notes a segment, unless there was one of the same kind: the first of two counts. */
static void note(struct jpeg_segment *segment, const uint8_t *bytes, size_t length)
{
    if (!segment->bytes)
        *segment = (struct jpeg_segment){bytes, length};
}

/* Notes a part of the ICC profile. As jpeg_read_icc_profile of libjpeg, it demands that all parts
 * say the same number of parts, and that each part occurs once. */
static void note_profile(struct jpeg_segments *segments, const uint8_t *bytes, size_t length)
{
    unsigned number = bytes[ICC_HEAD_BYTES - 2], count = bytes[ICC_HEAD_BYTES - 1];
    struct jpeg_segment *part = &segments->icc[number];
    if (segments->icc_count == 0)
        segments->icc_count = count;
    segments->icc_is_damaged |=
        number == 0 || number > count || count != segments->icc_count || part->bytes != NULL;
    *part = (struct jpeg_segment){bytes + ICC_HEAD_BYTES, length - ICC_HEAD_BYTES};
}

static void note_segment(struct jpeg_segments *segments, int marker, const uint8_t *bytes,
                         size_t length)
{
    if (marker == JPEG_MARKER_ICC && length >= ICC_HEAD_BYTES &&
        is_named(bytes, length, JPEG_ICC_NAME, sizeof JPEG_ICC_NAME))
        note_profile(segments, bytes, length);
    else if (marker == JPEG_MARKER_IPTC &&
             is_named(bytes, length, JPEG_IPTC_NAME, sizeof JPEG_IPTC_NAME))
        note(&segments->iptc, bytes + sizeof JPEG_IPTC_NAME, length - sizeof JPEG_IPTC_NAME);
    else if (marker != JPEG_MARKER_EXIF)
        return;
    else if (is_named(bytes, length, JPEG_EXIF_NAME, JPEG_EXIF_NAME_BYTES))
        note(&segments->exif, bytes, length);
    else if (is_named(bytes, length, JPEG_XMP_NAME, JPEG_XMP_NAME_BYTES))
        note(&segments->xmp, bytes + JPEG_XMP_NAME_BYTES, length - JPEG_XMP_NAME_BYTES);
}

/* Called by libjpeg when it has read the marker of the segment. The file is one block of memory, so
 * the whole segment follows the next byte of the source. */
static boolean on_segment(j_decompress_ptr reader)
{
    enum { length_bytes = 2 };
    struct jpeg_state *state = reader->client_data;
    const uint8_t *at = state->source.next_input_byte;
    size_t left = state->source.bytes_in_buffer + state->rest_bytes, length = length_bytes;
    jpeg_count_segment(state);
    if (left >= length_bytes && ((size_t)at[0] << 8 | at[1]) > length_bytes)
        length = (size_t)at[0] << 8 | at[1];
    if (length <= left)
        note_segment(&state->segments, reader->unread_marker, at + length_bytes,
                     length - length_bytes);
    state->source.skip_input_data(reader, (long)length);
    return TRUE;
}

void jpeg_note_segments(struct jpeg_state *state)
{
    memset(&state->segments, 0, sizeof state->segments);
    jpeg_set_marker_processor(&state->reader, JPEG_MARKER_EXIF, on_segment);
    jpeg_set_marker_processor(&state->reader, JPEG_MARKER_ICC, on_segment);
    jpeg_set_marker_processor(&state->reader, JPEG_MARKER_IPTC, on_segment);
}

/* Joins the parts of the profile. Returns false if there is no memory. */
static bool keep_profile(const struct jpeg_segments *segments, struct image_info *info)
{
    size_t bytes = 0, at = 0;
    bool is_whole = segments->icc_count > 0 && !segments->icc_is_damaged;
    for (unsigned i = 1; i <= segments->icc_count; i++) {
        is_whole &= segments->icc[i].bytes != NULL;
        bytes += segments->icc[i].length;
    }
    if (!is_whole || bytes > ICC_BYTES_MAX || bytes == 0)
        return true;
    uint8_t *icc = malloc(bytes);
    if (!icc)
        return false;
    for (unsigned i = 1; i <= segments->icc_count; at += segments->icc[i++].length)
        memcpy(icc + at, segments->icc[i].bytes, segments->icc[i].length);
    if (!codec_icc_is_valid(icc, bytes)) {
        free(icc);
        return true;
    }
    info->icc = icc;
    info->icc_bytes = bytes;
    return true;
}

/* The numbers of units in a JFIF segment are those of enum density_unit. */
static void read_density(const struct jpeg_decompress_struct *reader, struct image_info *info)
{
    if (reader->saw_JFIF_marker &&
        (reader->density_unit == DENSITY_INCH || reader->density_unit == DENSITY_CM) &&
        reader->X_density > 0 && reader->Y_density > 0)
        info->density = (struct image_density){reader->X_density, reader->Y_density,
                                               (enum density_unit)reader->density_unit};
}

void jpeg_read_metadata(struct jpeg_state *state, struct image_info *info)
{
    const struct jpeg_segment *exif = &state->segments.exif, *xmp = &state->segments.xmp,
                              *iptc = &state->segments.iptc;
    read_density(&state->reader, info);
    if (exif->bytes)
        info->orientation = exif_orientation(exif->bytes, exif->length);
    if ((exif->bytes && !codec_keep_exif(state->limits, exif->bytes, exif->length, info)) ||
        (xmp->bytes && !codec_keep_xmp(state->limits, xmp->bytes, xmp->length, info)) ||
        (iptc->bytes && !codec_keep_iptc(state->limits, iptc->bytes, iptc->length, info)) ||
        !keep_profile(&state->segments, info))
        codec_fail(state, STATUS_OUT_OF_MEMORY, "no memory for the metadata of a JPEG");
    codec_fit_icc(info, state->reader.jpeg_color_space == JCS_GRAYSCALE);
}
