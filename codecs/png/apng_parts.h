/*
 * apng_parts.h - finds the frames of an animated PNG in its chunks (PNG, Third Edition, 11.3.6).
 *
 * A frame is a chunk fcTL and the chunks with its data after it: fdAT, or IDAT if fcTL comes before
 * the pixels of the PNG, which are then the first frame. Any thread.
 */
#pragma once

#include "codecs/codec.h"

/* Signature, IHDR, a palette of 256 colours and their alpha. */
#define APNG_HEAD_BYTES (8 + 25 + 12 + 3 * 256 + 12 + 256)

/* What becomes of a frame's rectangle before the next frame is drawn. */
enum apng_disposal { APNG_KEEP, APNG_CLEAR, APNG_RESTORE, APNG_DISPOSALS };

struct apng_frame {
    uint32_t x, y, width, height; /* inside the canvas */
    uint32_t delay_ms;
    enum apng_disposal disposal;
    bool blends;              /* it is laid over the canvas; otherwise it replaces the rectangle */
    const char *data_type;    /* of the chunks with its data */
    size_t data_at, data_end; /* offsets of the first one, and after the last one */
};

/* Reads a file from its beginning. A file with damage at its end has its frames before that. */
struct apng_reader {
    const uint8_t *bytes;
    size_t length;
    uint32_t width, height; /* of the canvas */
    bool lenient;           /* skip ancillary chunks with a wrong CRC */
    uint64_t deadline_ns;
    size_t at;         /* offset of the next chunk */
    size_t piece;      /* of CODEC_BYTES_PER_CHECK, in which the deadline was checked last */
    uint32_t sequence; /* the number that the next fcTL or fdAT must have */
    uint32_t frames;   /* frames that were found */
    bool has_pixels;   /* an IDAT chunk was found */
};

/* The bytes are borrowed. info: of the file. */
void apng_open(struct apng_reader *reader, const uint8_t *bytes, size_t length,
               const struct codec_limits *limits, const struct image_info *info);
/* Finds the next frame. false: there is none, or *error is set: decode_failed, decode_limit. */
bool apng_find_frame(struct apng_reader *reader, struct apng_frame *frame,
                     struct error *error) MUST_CHECK;
/* An upper bound on the bytes of a PNG of the frame alone, without metadata. */
size_t apng_frame_bytes(const struct apng_frame *frame);
/* Finds all frames, as many as info->frames, and sets info->frames_apart and may_have_alpha. Adds
 * the memory for the largest frame to info->codec_bytes. If the limits are lenient, damage only
 * sets info->ends_early and lowers info->frames to the frames before it, at least 1. Errors: those
 * of apng_find_frame. */
enum status apng_measure(const uint8_t *bytes, size_t length, const struct codec_limits *limits,
                         struct image_info *info, struct error *error) MUST_CHECK;
