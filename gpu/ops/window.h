/*
 * window.h - gives a CPU loop the rows around a row of an image, with the pixels outside of the
 * image.
 *
 * A ring buffer holds as many rows as the neighbourhood has. A row of the source is copied to it
 * when it is first needed, and the prologue is applied to it. Pixels outside of the image are added
 * before and after each row, so that loops need no special cases. If neither a prologue nor such
 * pixels are needed, rows are read directly from the source.
 */
#pragma once

#include "gpu/ops/prologue.h"

struct window {
    const struct image *from;
    const struct prologue *prologue;
    uint32_t channels; /* of the rows after the prologue */
    enum border border;
    int across, down; /* how far the neighbourhood extends on each side, in pixels */
    bool in_place;    /* rows are read from the source; the buffer is used only for zeros */
    uint8_t *ring;    /* 2 down + 1 rows, and a row of zeros for BORDER_ZERO */
    size_t pitch;     /* bytes per row of the buffer */
    int made; /* last row of the source in the buffer; -1: none */
};

/* Bytes of a row of the buffer, and of the whole buffer. channels: after the prologue. */
size_t window_pitch(uint32_t width, uint32_t channels, int across);
size_t window_bytes(uint32_t width, uint32_t channels, int across, int down);

/* Prepares the rows of an image. *from and *prologue must stay valid. ring: window_bytes()
 * bytes. */
void window_open(struct window *window, const struct image *from, const struct prologue *prologue,
                 enum border border, int across, int down, uint8_t *ring);
/* Returns the first byte of row y + step, with -down <= step <= down. A row outside of the image
 * has the values that `border` gives. `across` more columns precede and follow the row. y must not
 * be less than in the call before. */
const uint8_t *window_row(struct window *window, int y, int step);

/* Copies the fourth channel of a row of RGBA. */
void window_keep_alpha(const uint8_t *from, uint8_t *to, uint32_t width);
