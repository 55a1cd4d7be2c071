/*
 * median_cut.h - divides the colours of an image into boxes. Each box becomes one colour.
 *
 * PNG's palettes (png/png_palette.h) and the operation palette (gpu/ops/palette.h) use it. The
 * colours are counted in cells. Everything is computed in integers, and divisions drop the
 * remainder.
 *
 * A box is a set of cells; the first box has all of them. The spread of a box on an axis (red,
 * green, blue or alpha) is the sum of (x - m)^2 over its pixels, where x is the position of a
 * pixel's cell, and m is the sum of x divided by the number of pixels. The box with the largest
 * spread is cut on this axis; of several boxes, the first one, and of several axes, the first one.
 * Cells with x <= c stay in the box, where c is the least position at which they have half of the
 * pixels or more; if all cells would stay, those at c leave. The cells that leave become a new box,
 * the last one. A box with several kinds of cells is cut before all others: its transparent cells
 * stay, or, if it has none, its opaque cells leave. Cutting ends if there are as many boxes as
 * colours are allowed, or all spreads are 0.
 */
#pragma once

#include <stdint.h>

/* The largest position: colours and alpha in half units. An opaque cell has this alpha, and a
 * transparent one has 0. */
#define MEDIAN_CUT_UNITS 510

enum median_cut_axis { CUT_RED, CUT_GREEN, CUT_BLUE, CUT_ALPHA, CUT_AXES };

/* A cell. */
struct median_cut_cell {
    uint16_t at[CUT_AXES];
    uint32_t pixels; /* more than 0 */
    uint32_t number; /* the caller's */
};

struct median_cut_box {
    uint32_t first, count; /* cells: those of a box follow each other */
    /* Private: */
    enum median_cut_axis axis; /* on which it is cut */
    int cut;                   /* positions up to this one stay; < 0: half of the pixels */
    uint64_t spread;           /* 0: it cannot be cut */
};

/* Sorts the cells by boxes. boxes: receives at most `colours` boxes. count: at least 1.
 * deadline_ns: CLOCK_MONOTONIC, 0: none. Returns the number of boxes; 0: the deadline has
 * passed. */
uint32_t median_cut(struct median_cut_cell *cells, uint32_t count, struct median_cut_box *boxes,
                    uint32_t colours, uint64_t deadline_ns);
