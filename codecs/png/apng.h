/*
 * apng.h - composes the frames of an animated PNG on a canvas (PNG, Third Edition, 11.3.6), for
 * codec.c.
 *
 * The data of each frame becomes a PNG of the frame's size in memory, which the reader of still
 * PNGs decodes: with its arithmetic, its checks and its errors.
 */
#pragma once

#include "codecs/png/apng_parts.h"

/* What png_next_frame keeps from one frame to the next; zero at first. */
struct apng_state {
    struct apng_reader reader;
    struct apng_frame last;
    uint8_t *under;    /* what was under `last`, RGBA without padding, if its disposal is
                          APNG_RESTORE; else NULL. malloc'd */
    uint32_t channels; /* of a decoded frame: 1, 3 or 4 */
    uint8_t head[APNG_HEAD_BYTES]; /* of a frame's file: all chunks before its pixels */
    size_t head_bytes;
};

void apng_clear(struct apng_state *state); /* idempotent */
