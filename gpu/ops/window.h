/*
 * window.h - the neighbouring rows of a row, with their borders, for the CPU loops.
 *
 * Rows of the source are copied when they are needed into a cyclic buffer with one row per row of
 * the neighbourhood. Each row has enough pixels before and after it, so that the loops need no
 * special cases. The prologue is applied during the copy. Without a prologue, and without pixels
 * before and after a row, rows are read from the source as they are.
 */
#pragma once

#include "gpu/ops/prologue.h"

struct window {
    const struct image *from;
    const struct prologue *prologue;
    uint32_t channels; /* of the buffer's rows: 1 if gray is made */
    enum border border;
    int across, down; /* reach of the neighbourhood, in pixels on either side */
    bool in_place;    /* rows are the source's own; the buffer is not used, but for zeros */
    uint8_t *ring;    /* 2 down + 1 rows, and one of zeros with BORDER_ZERO */
    size_t pitch;
    int made; /* last row of the source in the buffer; -1: none */
};

/* Bytes per row of the buffer, and of the whole buffer, for rows with `channels` channels. */
size_t window_pitch(uint32_t width, uint32_t channels, int across);
size_t window_bytes(uint32_t width, uint32_t channels, int across, int down);

/* The image and the prologue belong to the caller and must stay valid. */
void window_open(struct window *window, const struct image *from, const struct prologue *prologue,
                 enum border border, int across, int down, uint8_t *ring);
/* The first byte of row y + step, made by the border's rule if it is outside. -down <= step <=
 * down. y must not decrease from call to call. The row has `across` columns before it and after its
 * end. */
const uint8_t *window_row(struct window *window, int y, int step);

/* Copies the fourth channel of a row, if the image has alpha. */
void window_keep_alpha(const uint8_t *from, uint8_t *to, uint32_t width);
