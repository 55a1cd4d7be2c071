/*
 * window.h - the rows around a row, with their borders made, for the CPU's loops.
 *
 * Rows of the source are copied, as they are needed, into a ring of as many rows as a
 * neighbourhood is high, with as many pixels before and after them as it needs: the loops then
 * have no cases. On the way gray is made of them and they are looked up, where that is asked for.
 */
#ifndef GPUIMGD_GPU_OPS_WINDOW_H
#define GPUIMGD_GPU_OPS_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"
#include "gpu/ops/border.h"
#include "gpu/ops/prologue.h"

struct window {
    const struct image *from;
    const struct prologue *prologue;
    uint32_t channels; /* of its rows: 1 where gray is made */
    enum border border;
    int across, down; /* pixels beyond a pixel, on either side */
    uint8_t *ring;    /* 2 down + 1 rows, and one of zeros */
    size_t pitch;
    int made; /* the last row of the source that is in the ring, -1 at first */
};

/* Bytes of a row in the ring, and of the ring, of rows of so many channels. */
size_t window_pitch(uint32_t width, uint32_t channels, int across);
size_t window_bytes(uint32_t width, uint32_t channels, int across, int down);

/* The image and the prologue are the caller's, and stay where they are. */
void window_open(struct window *window, const struct image *from, const struct prologue *prologue,
                 enum border border, int across, int down, uint8_t *ring);
/* The first byte of the row at y + step, with the border's rows above and below; -down <= step
 * <= down. Calls must go down: y is never less than in a call before. The pixels of `across`
 * columns lie before it, and behind its end. */
const uint8_t *window_row(struct window *window, int y, int step);

/* Where the image has alpha, it is kept: copies the fourth channel of a row. */
void window_keep_alpha(const uint8_t *from, uint8_t *to, uint32_t width);

#endif
