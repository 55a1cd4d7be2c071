/*
 * analysis.h - how susceptible each macroblock is to quantisation: its alpha.
 *
 * The analysis predicts the blocks of a macroblock from samples of the image, once with DC and once
 * with TM. It transforms the residuals and counts the coefficients by absolute value. A warp
 * analyses two macroblocks together, a lane a block with one of the predictions: first the luma of
 * each, then the chroma of both.
 */
#pragma once

#include "gpu/webp/modes.h"

#define ANALYSE_THREADS 128
#define ANALYSE_WARPS   (ANALYSE_THREADS / WARP_LANES)
/* Absolute values of coefficients, divided by 8: the last bin also has all larger ones. */
#define BINS 32
/* An alpha is this times the index of the last bin with coefficients, divided by the number of
 * coefficients in the largest bin. */
#define ALPHA_SCALE 510

/* How many coefficients of each lane are in each bin. */
struct analyse_shared {
    words4 counts[BINS][WARP_LANES / 16];
};

/* The block of a lane. */
struct analysed {
    const uint8_t *plane; /* the first sample of the macroblock */
    int stride, x, y;     /* x, y: of the block in it */
    bool is_tm, has_top, has_left;
};

/* Loads 4 samples above the macroblock, and 4 on its left. */
SIMT void load_around(const struct analysed *block, uint32_t *top, uint32_t *left)
{
    *top = 0x7F7F7F7F;
    *left = 0x81818181;
    if (block->has_top)
        *top = load_word(block->plane - block->stride + block->x);
    if (!block->has_left)
        return;
    const uint8_t *at = block->plane + block->y * block->stride - 1;
    *left = 0;
    UNROLL
    for (int i = 0; i < 4; i++)
        *left |= (uint32_t)at[i * block->stride] << 8 * i;
}

/* Counts the coefficients of each lane's block. dc: its DC prediction, four times. */
SIMT void count_coefficients(struct analyse_shared *shared, const struct analysed *block,
                             uint32_t top, uint32_t left, uint32_t dc)
{
    int corner = block->has_top ? 129 : 127, coefficients[16];
    uint32_t source[4], prediction[4];
    if (block->has_left)
        corner = block->has_top ? block->plane[-block->stride - 1] : 127;
    const uint8_t *at = block->plane + block->y * block->stride + block->x;
    UNROLL
    for (int y = 0; y < 4; y++) {
        uint32_t tm = tm_prediction(top, (int)(left >> 8 * y & 255) - corner);
        source[y] = load_word(at + y * block->stride);
        prediction[y] = block->is_tm ? tm : dc;
    }
    transform_block(source, prediction, coefficients);
    uint8_t *counts = (uint8_t *)shared->counts + lane_index();
    UNROLL
    for (int i = 0; i < 16; i++) {
        uint32_t value = (uint32_t)(coefficients[i] < 0 ? -coefficients[i] : coefficients[i]);
        value = value < 8 * BINS ? value : 8 * BINS - 1;
        counts[value / 8 * WARP_LANES]++;
    }
}

SIMT void clear_counts(struct analyse_shared *shared)
{
    words4 zeros = {0, 0, 0, 0};
    warp_barrier();
    shared->counts[lane_index()][0] = shared->counts[lane_index()][1] = zeros;
    warp_barrier();
}

/* Returns the alpha of a prediction. count: of the coefficients in the lane's bin. */
SIMT uint32_t alpha_of_counts(uint32_t count)
{
    uint32_t most = warp_max(count);
    int last = highest_bit(warp_ballot(count > 0));
    return most > 1 ? (uint32_t)(ALPHA_SCALE * last) / most : 0;
}

DEVICE uint32_t sum_bytes(uint32_t a, uint32_t b)
{
    return dot_unsigned(a, 0x01010101, dot_unsigned(b, 0x01010101, 0));
}

DEVICE uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Returns the larger alpha of the two predictions of the luma of a macroblock. */
SIMT uint32_t analyse_luma(struct analyse_shared *shared,
                           const struct webp_encode_descriptor *image, uint32_t x, uint32_t y)
{
    int lane = lane_index();
    struct analysed block;
    uint32_t top, left;
    block.stride = 16 * (int)image->columns;
    block.plane = image->y + (size_t)y * 16 * (size_t)block.stride + x * 16;
    block.x = lane % 4 * 4;
    block.y = lane / 4 % 4 * 4;
    block.is_tm = lane >= HALF_LANES;
    block.has_top = y > 0;
    block.has_left = x > 0;
    load_around(&block, &top, &left);
    uint32_t top_sum = sum_bytes(top, 0), left_sum = sum_bytes(left, 0);
    UNROLL
    for (int mask = 1; mask < 4; mask *= 2) {
        top_sum += warp_read_xor(top_sum, mask);
        left_sum += warp_read_xor(left_sum, 4 * mask);
    }
    clear_counts(shared);
    uint32_t sum = (y > 0 ? top_sum : 0) + (x > 0 ? left_sum : 0);
    uint32_t dc_sample = dc_of_sum(sum, y > 0, x > 0, 4);
    count_coefficients(shared, &block, top, left, dc_sample * 0x01010101u);
    warp_barrier();
    words4 dc = shared->counts[lane][0], tm = shared->counts[lane][1];
    uint32_t alpha_dc = alpha_of_counts(sum_bytes(dc.x, dc.y) + sum_bytes(dc.z, dc.w));
    uint32_t alpha_tm = alpha_of_counts(sum_bytes(tm.x, tm.y) + sum_bytes(tm.z, tm.w));
    return larger(alpha_dc, alpha_tm);
}

/* Sets alphas[] to the larger alphas of the two predictions of the chroma of macroblock `index` and
 * of the next. */
SIMT void analyse_chroma(struct analyse_shared *shared, const struct webp_encode_descriptor *image,
                         uint32_t index, uint32_t alphas[2])
{
    int lane = lane_index();
    struct analysed block;
    uint32_t top, left, own = index + (uint32_t)lane / HALF_LANES;
    if (own >= image->columns * image->rows)
        own = index;
    uint32_t x = own % image->columns, y = own / image->columns;
    block.stride = 8 * (int)image->columns;
    block.plane = (lane & 4 ? image->v : image->u) + (size_t)y * 8 * (size_t)block.stride + x * 8;
    block.x = lane % 2 * 4;
    block.y = lane / 2 % 2 * 4;
    block.is_tm = lane & 8;
    block.has_top = y > 0;
    block.has_left = x > 0;
    load_around(&block, &top, &left);
    uint32_t top_sum = sum_bytes(top, 0), left_sum = sum_bytes(left, 0);
    top_sum += warp_read_xor(top_sum, 1);
    left_sum += warp_read_xor(left_sum, 2);
    clear_counts(shared);
    uint32_t sum = (y > 0 ? top_sum : 0) + (x > 0 ? left_sum : 0);
    uint32_t dc_sample = dc_of_sum(sum, y > 0, x > 0, 3);
    count_coefficients(shared, &block, top, left, dc_sample * 0x01010101u);
    warp_barrier();
    UNROLL
    for (int i = 0; i < 2; i++) {
        words4 both = shared->counts[lane][i];
        alphas[i] = larger(alpha_of_counts(sum_bytes(both.x, both.y)),
                           alpha_of_counts(sum_bytes(both.z, both.w)));
    }
}

/* Sets the macroblock's alpha, and clears its edges for choose_modes. chroma: the alpha of its
 * chroma. */
SIMT void finish_macroblock(struct webp_encode_descriptor *image, uint32_t index, uint32_t luma,
                            uint32_t chroma)
{
    uint32_t lane = (uint32_t)lane_index(), mean = (3 * luma + chroma + 2) / 4;
    uint32_t alpha = mean < 255 ? 255 - mean : 0;
    uint64_t *edges = lane < WEBP_EDGE_WORDS ? image->luma_edges : image->chroma_edges;
    if (lane < 2 * WEBP_EDGE_WORDS)
        edges[(size_t)index * WEBP_EDGE_WORDS + lane % WEBP_EDGE_WORDS] = 0;
    if (lane > 0)
        return;
    if (image->channels == 4 && image->alphas[index])
        atomic_or(&image->declined, 1);
    image->alphas[index] = (uint8_t)alpha;
    atomic_add(&image->alpha_counts[alpha], 1);
}

/* Analyses macroblock `index` and the next, if there is one. Returns the sum of the alphas of their
 * chroma. */
SIMT uint32_t analyse_macroblocks(struct analyse_shared *shared,
                                  struct webp_encode_descriptor *image, uint32_t index)
{
    uint32_t chroma[2], end = image->columns * image->rows, sum = 0;
    end = index + 2 < end ? index + 2 : end;
    analyse_chroma(shared, image, index, chroma);
    NO_UNROLL
    for (uint32_t i = index; i < end; i++) {
        uint32_t own = i == index ? chroma[0] : chroma[1];
        uint32_t luma = analyse_luma(shared, image, i % image->columns, i / image->columns);
        finish_macroblock(image, i, luma, own);
        sum += own;
    }
    return sum;
}
