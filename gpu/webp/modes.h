/*
 * modes.h - what the choices of luma and chroma modes share: rows of macroblocks and their edges.
 *
 * A warp has a row of macroblocks. It needs the edges of the row above, which another warp may be
 * writing: a word of an edge is valid as soon as its bit WEBP_EDGE_VALID is set.
 */
#pragma once

#include "gpu/webp/tables.h"
#include "gpu/webp/transform.h"

enum { MODE_DC, MODE_TM, MODE_VE, MODE_HE };

/* A row of macroblocks of an image. */
struct mode_row {
    const struct webp_encode_descriptor *image;
    const struct webp_frame *frame;
    struct lane_factors factors;
    uint32_t y;
};

/* Returns the first macroblock of the row. */
DEVICE size_t row_start(const struct mode_row *row)
{
    return (size_t)row->y * row->image->columns;
}

DEVICE const struct webp_segment *segment_at(const struct mode_row *row, uint32_t x)
{
    uint8_t alpha = row->image->alphas[row_start(row) + x];
    return &row->frame->segments[row->frame->segment_of[alpha]];
}

/* Waits until the lane's word is valid. at: NULL: the lane needs none. word: what was there before;
 * it may be valid. */
SIMT uint64_t await_edge(const uint64_t *at, uint64_t word)
{
    while (warp_any(at && !(word & WEBP_EDGE_VALID))) {
        relax();
        if (at)
            word = poll_alone(at);
    }
    return word;
}

/* The cost of a mode, by the error of its prediction and the bits that code it. */
DEVICE uint32_t mode_score(uint32_t squares, uint32_t cost)
{
    return squares * 256 + cost;
}

/* Adds to `sum` what the squares of the differences of four samples from their prediction are more
 * than the squares of the samples, modulo 2^32. */
DEVICE uint32_t add_products(uint32_t samples, uint32_t prediction, uint32_t sum)
{
    return dot_unsigned(prediction, prediction, sum) - 2 * dot_unsigned(samples, prediction, 0);
}

/* The TM prediction of four samples. top: those above; difference: of the sample on the left from
 * the corner. */
DEVICE uint32_t tm_prediction(uint32_t top, int difference)
{
    uint32_t both = ((uint32_t)difference & 0xFFFF) * 0x10001u;
    uint32_t even = add_clip_halves(top & 0x00FF00FF, both);
    uint32_t odd = add_clip_halves(top >> 8 & 0x00FF00FF, both);
    return even | odd << 8;
}
