/*
 * window.h - the neighbouring rows of a row, with their borders, for the CPU loops.
 *
 * A ring buffer holds as many rows as the neighbourhood has. A row of the source is copied into it
 * when the row is first needed, and the prologue is applied during the copy. Each row of the buffer
 * has additional pixels before and after it, so that the loops need no special cases at the border.
 * If no prologue and no additional pixels are needed, rows are read directly from the source.
 */
#pragma once

#include "gpu/ops/prologue.h"

struct window {
    const struct image *from;
    const struct prologue *prologue;
    uint32_t channels; /* of the buffer's rows: 1 if gray is made */
    enum border border;
    int across, down; /* reach of the neighbourhood, in pixels on either side */
    bool in_place;    /* rows are read from the source; the buffer is used only for zeros */
    uint8_t *ring;    /* 2 down + 1 rows; with BORDER_ZERO one more row, all zeros */
    size_t pitch;
    int made; /* last row of the source in the buffer; -1: none */
};

/* Bytes per row of the buffer, and of the whole buffer, for rows with `channels` channels. */
size_t window_pitch(uint32_t width, uint32_t channels, int across);
size_t window_bytes(uint32_t width, uint32_t channels, int across, int down);

/* The image and the prologue belong to the caller and must stay valid. */
void window_open(struct window *window, const struct image *from, const struct prologue *prologue,
                 enum border border, int across, int down, uint8_t *ring);
/* Returns the first byte of row y + step. A row outside the image is filled according to `border`.
 * -down <= step <= down. y must not decrease from call to call. The row has `across` more columns
 * before its start and after its end. */
const uint8_t *window_row(struct window *window, int y, int step);

/* Copies the fourth channel of a row, if the image has alpha. */
void window_keep_alpha(const uint8_t *from, uint8_t *to, uint32_t width);
