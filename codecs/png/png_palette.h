/*
 * png_palette.h - finds the palette of an image: its colours, or, if there are too many, those of a
 * median cut.
 *
 * Everything is computed in integers, so that an image gets the same palette and indices on every
 * machine. Divisions drop the remainder.
 *
 * Order. Entries that are not opaque come first, because tRNS ends with the last of them. Then
 * entries are in the order of red, green, blue and alpha.
 *
 * Few colours. If the image has no more colours than the job allows, they are the palette. Colours
 * with alpha 0 count as different: nothing is lost.
 *
 * Cells. Otherwise the colours are counted in cells (png_cells.h). The position of a cell is that
 * of its centre in half units. Its alpha A is 510 if the cell is opaque, 0 if it is transparent,
 * else 2 v + 2^shift - 1, where v is the least alpha of the cell. Red, green and blue have the same
 * formula, but are then multiplied by A, plus 255, and divided by 510.
 *
 * Boxes. The cells are divided into boxes by median_cut.h.
 *
 * Entries. A box becomes the mean colour of its pixels: alpha is the mean, rounded half up; red,
 * green and blue are means weighted with alpha, rounded half up, or 0 if all alphas are 0. The
 * means are those of the pixels, not of the cells: a flat background keeps its colour.
 *
 * Indices. A pixel gets the entry that is nearest to the position of its cell; of several, the
 * first one. With d the difference in red, green or blue, and a that in alpha, the distance is the
 * sum of d^2 + (d - a)^2 over the three colours: the squared differences over black and over white.
 * An opaque cell gets only opaque entries, if there are any. There is no dithering.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"

#define PNG_COLOURS_MAX 256

struct png_palette;

struct png_palette_entries {
    uint32_t count;
    uint32_t with_alpha; /* how many are not opaque: the first ones */
    uint8_t rgba[PNG_COLOURS_MAX][4];
};

/* The memory of a palette, while it is found and used. */
size_t png_palette_bytes(uint32_t width, uint32_t height);
/* Returns NULL if there is no memory. */
struct png_palette *png_palette_create(uint32_t width, uint32_t height);
void png_palette_destroy(struct png_palette *palette); /* takes NULL */
/* Finds at most `colours` entries, 2 to PNG_COLOURS_MAX. Once per palette. deadline_ns:
 * CLOCK_MONOTONIC, 0: none. Returns NULL if the deadline has passed. */
const struct png_palette_entries *png_palette_find(struct png_palette *palette,
                                                   const struct image *image, uint32_t colours,
                                                   uint64_t deadline_ns);
/* Sets the indices of a row of this image. */
void png_palette_map(const struct png_palette *palette, const uint8_t *row, uint32_t width,
                     uint32_t channels, uint8_t *indices);
