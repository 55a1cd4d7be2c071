/*
 * palette.h - counts the pixels of each cell of colours, for the operation palette.
 *
 * A cell is a cube of 16 x 16 x 16 colours. Besides its pixels, their offsets in the cube are added
 * up, so that the mean colour of a cell is exact. Gray counts as R = G = B. Of RGBA, pixels with an
 * alpha below PALETTE_ALPHA are not counted, and the colours of the others are not flattened.
 */
#pragma once

#include "conf/limits.h"
#include "gpu/ops/pixel.h"
#include "gpu/plan/pass.h"

#define PALETTE_COLOURS_MAX 16
#define PALETTE_ALPHA       128
/* Bits of each colour that choose its cell, and the other bits. */
#define PALETTE_BITS     4
#define PALETTE_LOW_BITS (8 - PALETTE_BITS)
#define PALETTE_CELLS    (1u << 3 * PALETTE_BITS)
/* If all pixels of a larger image were in one cell, its sums could exceed 32 bits. */
#define PALETTE_PIXELS_MAX (UINT32_MAX >> PALETTE_LOW_BITS)

struct palette {
    uint32_t colours;
};

/* The kernel adds to two words of 64 bits: pixels and red, green and blue. */
struct palette_cell {
    alignas(16) uint32_t pixels;
    uint32_t sums[3]; /* of the offsets in red, green and blue */
};

PIXEL uint32_t palette_cell_of(uint32_t red, uint32_t green, uint32_t blue)
{
    return red >> PALETTE_LOW_BITS << 2 * PALETTE_BITS | green >> PALETTE_LOW_BITS << PALETTE_BITS |
           blue >> PALETTE_LOW_BITS;
}

/* The offset of a colour in its cell. */
PIXEL uint32_t palette_offset(uint32_t colour)
{
    return colour & ((1u << PALETTE_LOW_BITS) - 1);
}
