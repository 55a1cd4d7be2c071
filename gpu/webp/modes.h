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
    uint32_t header_bits_max;
};

/* Returns the first macroblock of the row. */
DEVICE size_t row_start(const struct mode_row *row)
{
    return (size_t)row->y * row->image->columns;
}

/* alpha: of a macroblock. */
DEVICE const struct webp_segment *segment_of(const struct mode_row *row, uint32_t alpha)
{
    return &row->frame->segments[row->frame->segment_of[alpha]];
}

/* Polls of a waiting warp are more and more apart, so that they take no time from other warps. */
#define RELAXES_MAX 8

/* Waits until the lane's word is valid. at: NULL: the lane needs none. word: what was there before;
 * it may be valid. */
SIMT uint64_t await_edge(const uint64_t *at, uint64_t word)
{
    int relaxes = 1;
    while (warp_any(at && !(word & WEBP_EDGE_VALID))) {
        for (int i = 0; i < relaxes; i++)
            relax();
        relaxes = relaxes < RELAXES_MAX ? relaxes + 1 : relaxes;
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

/* Returns the score of the best mode, and sets *best to it. Of equal ones it is the first. */
DEVICE uint32_t best_mode(const uint32_t squares[4], const uint32_t costs[4], int *best)
{
    uint32_t least = mode_score(squares[0], costs[0]);
    *best = 0;
    UNROLL
    for (int mode = 1; mode < 4; mode++) {
        uint32_t score = mode_score(squares[mode], costs[mode]);
        *best = score < least ? mode : *best;
        least = score < least ? score : least;
    }
    return least;
}

/* The DC prediction. sum: of the samples above and on the left, without those that are beyond the
 * image; there are 2^bits on a side. */
DEVICE uint32_t dc_of_sum(uint32_t sum, bool has_top, bool has_left, int bits)
{
    bits += has_top && has_left;
    return has_top || has_left ? (sum + (1u << bits >> 1)) >> bits : 128;
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
