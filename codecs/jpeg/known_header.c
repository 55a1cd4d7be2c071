#include "codecs/jpeg/known_header.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/jpeg/jpeg_state.h"

struct jpeg_known_header *jpeg_find_known(struct jpeg_state *state, const uint8_t *file,
                                          size_t length)
{
    for (size_t i = 0; i < JPEG_KNOWN_COUNT; i++) {
        size_t which = (state->known_last + i) % JPEG_KNOWN_COUNT;
        struct jpeg_known_header *known = &state->known[which];
        if (known->length == 0 || length < known->length ||
            memcmp(file, known->bytes, known->length) != 0)
            continue;
        state->known_last = which;
        return known;
    }
    return NULL;
}

static bool has_more_metadata(const struct jpeg_segments *segments)
{
    return segments->exif.bytes || segments->xmp.bytes || segments->iptc.bytes ||
           segments->icc_count > 1 || segments->icc_is_damaged;
}

void jpeg_keep_header(struct jpeg_state *state, const uint8_t *file, size_t length,
                      const struct image_info *info)
{
    size_t which = (state->known_last + 1) % JPEG_KNOWN_COUNT;
    struct jpeg_known_header *known = &state->known[which];
    size_t bytes = jpeg_header_bytes(file, length);
    if (bytes == 0 || bytes > sizeof known->bytes || has_more_metadata(&state->segments) ||
        state->errors.num_warnings > 0)
        return;
    assert(!info->exif && !info->xmp && !info->notice_exif && !info->notice_xmp);
    state->known_last = which;
    known->length = bytes;
    known->has_frame = false;
    known->info = *info;
    known->info.icc = NULL;
    known->icc_at = info->icc ? (size_t)(state->segments.icc[1].bytes - file) : 0;
    assert(known->icc_at + info->icc_bytes <= bytes);
    memcpy(known->bytes, file, bytes);
}

bool jpeg_copy_info(const struct jpeg_known_header *known, struct image_info *info)
{
    const struct format *format = info->format;
    bool gain_map = info->gain_map;
    uint8_t *icc = known->icc_at > 0 ? malloc(known->info.icc_bytes) : NULL;
    if (known->icc_at > 0 && !icc)
        return false; /* uncovered: memory (tests/coverage/reasons.txt) */
    *info = known->info;
    info->format = format;
    info->gain_map = gain_map;
    info->icc = icc;
    if (icc)
        memcpy(icc, known->bytes + known->icc_at, info->icc_bytes);
    return true;
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
