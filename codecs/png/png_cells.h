/*
 * png_cells.h - counts the colours of an image, for a palette.
 *
 * A colour is a pixel as RGBA; gray and RGB are opaque. It is a number with red in the lowest byte.
 * Colours are counted one by one while there are at most PNG_CELLS_MAX. If there are more, cells
 * get twice the side, until there are at most PNG_CELLS_MAX cells. So the cells do not depend on
 * the order of pixels. With a side of 2^shift, png_cell_of gives the cell of a colour. All
 * transparent colours then are one cell, and no cell has both opaque and other colours.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"

/* Enough to count each colour of most drawings; photographs usually get 6 bits per channel. The
 * table fits the second-level cache. */
#define PNG_CELLS_MAX 65536u

struct png_cell {
    uint32_t colour, value; /* a slot whose value is 0 is free */
};

/* A hash table of cells. Its values are first the numbers of pixels. */
struct png_cells {
    struct png_cell *slots, *list;
    uint32_t bits;       /* of the number of slots */
    uint32_t multiplier; /* of the hash. It is random, so that nobody can make images whose colours
                            collide */
    uint32_t used, shift;
};

/* The most cells that an image of so many pixels has. */
static inline uint32_t png_cells_max(uint64_t pixels)
{
    return pixels < PNG_CELLS_MAX ? (uint32_t)pixels : PNG_CELLS_MAX;
}

/* The memory for the slots of an image. */
size_t png_cells_bytes(uint64_t pixels);
/* slots: all 0. list: png_cells_max members, which only png_cells_count uses. */
struct png_cells png_cells_make(uint64_t pixels, struct png_cell *slots, struct png_cell *list);
/* Counts the pixels. false: the deadline has passed. */
bool png_cells_count(struct png_cells *cells, const struct image *image, uint64_t deadline_ns);

/* ---- colours ---- */

#define PNG_OPAQUE 0xFF000000u

static inline uint32_t png_colour_at(const uint8_t *row, uint32_t x, uint32_t channels)
{
    if (channels == 1)
        return row[x] * 0x010101u | PNG_OPAQUE;
    const uint8_t *pixel = row + (size_t)x * channels;
    uint32_t rgb = (uint32_t)pixel[0] | (uint32_t)pixel[1] << 8 | (uint32_t)pixel[2] << 16;
    return rgb | (channels == 4 ? (uint32_t)pixel[3] << 24 : PNG_OPAQUE);
}

/* The least colour of the cell. The alpha of a cell that is neither opaque nor transparent is made
 * odd, but not 255. */
static inline uint32_t png_cell_of(uint32_t colour, uint32_t shift)
{
    uint32_t mask = (0xFFu << shift & 0xFF) * 0x010101u, alpha = colour >> 24;
    if (shift == 0)
        return colour;
    if (alpha == 0)
        return 0;
    if (alpha < 255) {
        alpha = (alpha & mask) | 1;
        alpha = alpha < 255 ? alpha : 254;
    }
    return (colour & mask) | alpha << 24;
}

/* ---- slots ---- */

/* Returns the slot of a cell, or the free slot where it belongs. */
static inline struct png_cell *png_cells_find(const struct png_cells *cells, uint32_t cell)
{
    uint32_t hash = cell * cells->multiplier, last = (1u << cells->bits) - 1;
    hash = (hash ^ hash >> 15) * 0x85EBCA77u;
    uint32_t at = hash >> (32 - cells->bits);
    while (cells->slots[at].value != 0 && cells->slots[at].colour != cell)
        at = (at + 1) & last;
    return &cells->slots[at];
}
