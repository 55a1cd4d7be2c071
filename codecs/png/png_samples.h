/*
 * png_samples.h - makes the rows of a PNG with a palette, or with fewer than 8 bits per pixel.
 *
 * Indices of a palette have 1, 2, 4 or 8 bits, as few as possible. A gray image stays gray if that
 * takes no more bits: with the values 0 and 255, multiples of 85, multiples of 17, or more than 16
 * values.
 */
#pragma once

#include "codecs/png/png_palette.h"

struct png_samples {
    bool is_gray;   /* else samples are indices of the palette */
    uint32_t depth; /* bits of a sample: 1, 2, 4 or 8 */
    size_t row_bytes;
    const struct png_palette_entries *entries; /* of the palette */
};

/* The memory of the samples. colours: the most that the palette has. 0: there is none, because all
 * pixels are gray, with the values 0 and 255; they have 1 bit. */
size_t png_samples_bytes(uint32_t width, uint32_t height, uint32_t colours);
/* Returns NULL if there is no memory. */
struct png_samples *png_samples_create(uint32_t width, uint32_t height, uint32_t colours);
void png_samples_destroy(struct png_samples *samples); /* takes NULL */
/* Finds the palette, and sets the members above. Call it first, and once. false: the deadline
 * (CLOCK_MONOTONIC; 0: none) has passed. */
bool png_samples_find(struct png_samples *samples, const struct image *image, uint64_t deadline_ns);
/* Returns the bytes of a row of this image. They stay until the next call. */
const uint8_t *png_samples_row(struct png_samples *samples, const uint8_t *row);
