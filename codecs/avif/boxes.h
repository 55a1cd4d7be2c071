/*
 * boxes.h - writes boxes of the ISO Base Media File Format (ISO/IEC 14496-12) to memory.
 *
 * The caller knows an upper bound of the size.
 */
#pragma once

#include <string.h>

#include "codecs/avif/frame.h"

struct boxes {
    uint8_t *file;
    size_t length;
};

static inline void box_put(struct boxes *boxes, const void *bytes, size_t count)
{
    if (count > 0) /* bytes may be NULL */
        memcpy(boxes->file + boxes->length, bytes, count);
    boxes->length += count;
}

static inline void box_number(struct boxes *boxes, uint64_t value, unsigned bytes)
{
    for (unsigned i = bytes; i-- > 0;)
        boxes->file[boxes->length++] = (uint8_t)(value >> 8 * i);
}

static inline size_t box_begin(struct boxes *boxes, const char *type)
{
    size_t at = boxes->length;
    box_number(boxes, 0, 4);
    box_put(boxes, type, 4);
    return at;
}

/* A box with a version and flags: 4.2. */
static inline size_t box_begin_full(struct boxes *boxes, const char *type, uint32_t version,
                                    uint32_t flags)
{
    size_t at = box_begin(boxes, type);
    box_number(boxes, version << 24 | flags, 4);
    return at;
}

static inline void box_end(struct boxes *boxes, size_t at)
{
    avif_put_u32(boxes->file + at, (uint32_t)(boxes->length - at));
}
