#include "codecs/jpeg/known_header.h"

#include <assert.h>
#include <string.h>

#include "codecs/jpeg/jpeg_state.h"

bool jpeg_is_known(const struct jpeg_known_header *known, const uint8_t *file, size_t length)
{
    return known->length > 0 && length >= known->length &&
           memcmp(file, known->bytes, known->length) == 0;
}

static bool has_metadata(const struct jpeg_segments *segments)
{
    return segments->exif.bytes || segments->xmp.bytes || segments->iptc.bytes ||
           segments->icc_count > 0 || segments->icc_is_damaged;
}

void jpeg_keep_header(struct jpeg_state *state, const uint8_t *file, size_t length,
                      const struct image_info *info)
{
    struct jpeg_known_header *known = &state->known;
    size_t bytes = jpeg_header_bytes(file, length);
    if (bytes == 0 || bytes > sizeof known->bytes || has_metadata(&state->segments) ||
        state->errors.num_warnings > 0)
        return;
    assert(!info->icc && !info->exif && !info->xmp && !info->notice_exif && !info->notice_xmp);
    known->length = bytes;
    known->has_frame = false;
    known->info = *info;
    memcpy(known->bytes, file, bytes);
}

void jpeg_copy_info(const struct jpeg_known_header *known, struct image_info *info)
{
    const struct format *format = info->format;
    bool gain_map = info->gain_map;
    *info = known->info;
    info->format = format;
    info->gain_map = gain_map;
}

/* The frame has one scan. Its other scans, and the tables that it does not count, are not set. */
static void copy_frame(struct jpeg_frame *to, const struct jpeg_frame *from)
{
    memcpy(to, from, offsetof(struct jpeg_frame, scans));
    to->scans[0] = from->scans[0];
    to->huffman_count = from->huffman_count;
    memcpy(to->huffman, from->huffman, from->huffman_count * sizeof *from->huffman);
}

void jpeg_keep_frame(struct jpeg_known_header *known, const struct jpeg_frame *frame)
{
    if (frame->scan_count != 1 || frame->scans[0].at != known->length)
        return;
    copy_frame(&known->frame, frame);
    known->has_frame = true;
}

bool jpeg_copy_frame(const struct jpeg_known_header *known, size_t length, struct jpeg_frame *frame)
{
    if (!known->has_frame || length > UINT32_MAX)
        return false;
    copy_frame(frame, &known->frame);
    frame->scans[0].bytes = (uint32_t)(length - frame->scans[0].at);
    return true;
}
