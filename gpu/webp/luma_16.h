/*
 * luma_16.h - the luma of a macroblock in shared memory; chooses its 16 x 16 mode, and codes it.
 */
#pragma once

#include "gpu/webp/modes.h"

/* ---- shared memory of a warp ---- */

/* The samples in and around a macroblock: rows from -1 on, columns from -4 to 19. */
#define FRAME_STRIDE   24
#define FRAME_AT(x, y) (((y) + 1) * FRAME_STRIDE + (x) + 4)
/* The modes of a macroblock's blocks, and around them: rows and columns from -1 on. */
#define MODES_STRIDE   5
#define MODES_AT(x, y) (((y) + 1) * MODES_STRIDE + (x) + 1)
/* Bytes of predictors (luma_4.h), and of samples left of blocks, of half a warp. */
#define HALF_PREDICTORS 64
#define HALF_LEFT       40
/* The first half of a warp has the blocks of rows 0 and 2, the second those of rows 1 and 3. The
 * index of a block is in this order. */
#define HALF_BLOCKS    8
#define BLOCK_AT(x, y) ((y) % 2 * HALF_BLOCKS + (y) / 2 * 4 + (x))

/* The whole is aligned to 16. */
struct luma_shared {
    uint8_t predictors[2 * HALF_PREDICTORS];
    words4 source[16];      /* of the block at BLOCK_AT(), its rows */
    int16_t levels[16][16]; /* the same */
    uint8_t frame[17 * FRAME_STRIDE];
    /* Samples left of the blocks of each half: of row 0 or 1 the four on the left of the
     * macroblock, and those at the right of its four blocks; then the same of row 2 or 3. */
    uint8_t left[2 * HALF_LEFT];
    uint8_t modes[MODES_STRIDE * MODES_STRIDE + 3];
    int32_t dc[16];
    int16_t dc_levels[16];
};

#define LUMA_AT(member) ((uint32_t)offsetof(struct luma_shared, member))

/* The shared memory of a block of threads. A warp has a luma_shared or a chroma_shared. */
#define MODE_WARPS 4
struct mode_shared {
    words4 warps[MODE_WARPS][(sizeof(struct luma_shared) + 15) / 16];
    uint16_t costs[WEBP_MODES * WEBP_MODES * WEBP_MODES]; /* mode_costs */
};

/* Offset in left[] of the samples on the left of the macroblock, in row y. */
DEVICE int left_at(int y)
{
    return y / 4 % 2 * HALF_LEFT + y / 8 * (HALF_LEFT / 2) + y % 4;
}

struct luma_macroblock {
    uint32_t x;
    const struct webp_segment *segment;
    uint32_t penalty_4x4;
    uint32_t source[2]; /* lane l: 8 samples of row l / 2, from column l % 2 * 8 on */
    uint32_t best16;    /* score of the best 16 x 16 mode */
    int mode16, dc16;
    const uint64_t *next_at; /* the lane's word of the edge above the next macroblock, or NULL */
    uint64_t next_edge;      /* the word; it may not be valid yet */
    bool has_dc_levels;      /* of 16 x 16 prediction */
    bool is_16x16;
};

/* Writes the source, and the samples and modes above, to shared memory. edge: of lanes 0 to 3 the
 * words of the macroblock above. */
SIMT void place_around(struct luma_shared *shared, const struct mode_row *row,
                       const struct luma_macroblock *macroblock, uint64_t edge)
{
    int lane = lane_index();
    uint32_t *frame = (uint32_t *)(void *)shared->frame;
    if (lane < WEBP_EDGE_WORDS) {
        frame[FRAME_AT(4 * lane, -1) / 4] = row->y > 0 ? (uint32_t)edge : 0x7F7F7F7F;
        shared->modes[MODES_AT(lane, -1)] = row->y > 0 ? (uint8_t)(edge >> 32 & 15) : MODE_DC;
    }
    uint32_t *source = (uint32_t *)(void *)shared->source;
    int at = 4 * BLOCK_AT(lane % 2 * 2, lane / 8) + lane / 2 % 4;
    source[at] = macroblock->source[0];
    source[at + 4] = macroblock->source[1];
    warp_barrier();
}

/* ---- choice ---- */

/* Whether all samples of the source are equal. */
SIMT bool is_flat(const struct luma_macroblock *macroblock)
{
    uint32_t first = (warp_read(macroblock->source[0], 0) & 255) * 0x01010101u;
    return !warp_any(macroblock->source[0] != first || macroblock->source[1] != first);
}

DEVICE uint32_t add_samples(uint32_t samples, uint32_t sum)
{
    return dot_unsigned(samples, 0x01010101, sum);
}

/* Finds the best 16 x 16 mode: the least sum of squared differences, and cost of the mode. */
SIMT void choose_16x16(const struct luma_shared *shared, const struct mode_row *row,
                       struct luma_macroblock *macroblock)
{
    int lane = lane_index();
    uint32_t first = macroblock->source[0], second = macroblock->source[1];
    const uint32_t *above = (const uint32_t *)(const void *)(shared->frame + FRAME_AT(0, -1));
    uint32_t top0 = above[lane % 2 * 2], top1 = above[lane % 2 * 2 + 1];
    uint32_t left = shared->frame[FRAME_AT(-1, lane / 2)];
    bool has_top = row->y > 0, has_left = macroblock->x > 0;
    uint32_t around = has_left && lane % 2 == 0 ? left : 0;
    if (has_top && lane < 2)
        around = add_samples(top0, add_samples(top1, around));
    uint32_t dc = dc_of_sum(warp_sum(around), has_top, has_left, 4);
    uint32_t own = add_samples(first, add_samples(second, 0)), all = warp_sum(own);
    uint32_t squares = warp_sum(dot_unsigned(first, first, dot_unsigned(second, second, 0)));
    int difference = (int)left - shared->frame[FRAME_AT(-1, -1)];
    uint32_t tm0 = tm_prediction(top0, difference), tm1 = tm_prediction(top1, difference);
    /* The predictions DC and HE are the same for all samples, or those of a row. */
    uint32_t scores[4] = {
        squares - 2 * dc * all + 256 * dc * dc,
        warp_sum(add_squares(first, tm0, add_squares(second, tm1, 0))),
        warp_sum(add_squares(first, top0, add_squares(second, top1, 0))),
        squares + warp_sum(8 * left * left - 2 * left * own),
    };
    const uint32_t costs[4] = {663 * 106, 919 * 106, 872 * 106, 919 * 106};
    macroblock->dc16 = (int)dc;
    macroblock->best16 = best_mode(scores, costs, &macroblock->mode16);
    /* libwebp decides on flat macroblocks at the edges of the image at once. */
    macroblock->is_16x16 = (!has_top || !has_left) && is_flat(macroblock);
    if (macroblock->is_16x16)
        macroblock->mode16 = has_left ? MODE_VE : MODE_DC;
}

/* ---- code ---- */

/* Transforms and codes the DC coefficients of the blocks, in raster order in shared->dc, and
 * replaces them by the decoder's. Returns whether there are levels that are not 0. */
SIMT bool code_dc(struct luma_shared *shared, const struct webp_segment *segment)
{
    int p = lane_index() % HALF_LANES;
    /* After the transform, the lane has this element of it. */
    int index = hadamard_of(p / 4) * 4 + hadamard_of(p % 4);
    struct lane_quantiser quantiser = lane_quantiser_of(&segment->y2, index, 0);
    int value = hadamard_step(hadamard_step(shared->dc[p], 2), 1);
    value = hadamard_step(hadamard_step(value, 8), 4) >> 1;
    int level = quantise(&value, &quantiser);
    bool any = warp_any(level != 0);
    value = hadamard_step(hadamard_step(value, 4), 8);
    value = hadamard_step(hadamard_step(value, 1), 2);
    warp_barrier();
    if (lane_index() == p) {
        shared->dc_levels[coding_order[index]] = (int16_t)level;
        shared->dc[p] = (value + 3) >> 3;
    }
    warp_barrier();
    return any;
}

/* The lane's pixels: pixel p of a block of each pair. Pair i has blocks x = i % 2 * 2 and the next
 * of row i / 2. A prediction is the sum of one of columns[i % 2] and one of rows[i / 2]. */
struct predictor_16x16 {
    int columns[2], rows[4];
};

SIMT struct predictor_16x16 predictor_of(const struct luma_shared *shared,
                                         const struct luma_macroblock *macroblock)
{
    int p = lane_index() % HALF_LANES, x = lane_index() / HALF_LANES * 4 + p % 4;
    int mode = macroblock->mode16, corner = shared->frame[FRAME_AT(-1, -1)];
    struct predictor_16x16 to;
    UNROLL
    for (int i = 0; i < 2; i++) {
        int top = shared->frame[FRAME_AT(x + 8 * i, -1)];
        to.columns[i] = mode == MODE_DC   ? macroblock->dc16
                        : mode == MODE_HE ? 0
                                          : top - (mode == MODE_TM ? corner : 0);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        int left = shared->frame[FRAME_AT(-1, 4 * i + p / 4)];
        to.rows[i] = mode == MODE_TM || mode == MODE_HE ? left : 0;
    }
    return to;
}

DEVICE int prediction_of(const struct predictor_16x16 *predictor, int pair)
{
    return clip_sample(predictor->columns[pair % 2] + predictor->rows[pair / 2]);
}

/* Codes the macroblock with its 16 x 16 mode. */
SIMT void code_16x16(struct luma_shared *shared, const struct mode_row *row,
                     const struct lane_quantiser *quantiser, struct luma_macroblock *macroblock)
{
    int coefficients[8], p = lane_index() % HALF_LANES, half = lane_index() / HALF_LANES;
    struct predictor_16x16 predictor = predictor_of(shared, macroblock);
    const uint8_t *source = (const uint8_t *)shared->source + 16 * half + p;
    int32_t *dc = shared->dc + half;
    UNROLL
    for (int i = 0; i < 8; i++) {
        int sample = source[16 * BLOCK_AT(i % 2 * 2, i / 2)];
        coefficients[i] = transform(sample - prediction_of(&predictor, i), &row->factors);
        if (p == 0)
            dc[2 * i] = coefficients[i];
    }
    warp_barrier();
    macroblock->has_dc_levels = code_dc(shared, macroblock->segment);
    int16_t *levels = shared->levels[half] + coding_order[coefficient_of(p)];
    uint8_t *frame = shared->frame + FRAME_AT(0, 0) + 4 * half + p % 4 + p / 4 * FRAME_STRIDE;
    UNROLL
    for (int i = 0; i < 8; i++) {
        int value = dc[2 * i], level = quantise(&coefficients[i], quantiser);
        coefficients[i] = p == 0 ? value : coefficients[i];
        levels[16 * BLOCK_AT(i % 2 * 2, i / 2)] = (int16_t)(p == 0 ? 0 : level);
        int sample =
            prediction_of(&predictor, i) + inverse_transform(coefficients[i], &row->factors);
        frame[i % 2 * 8 + i / 2 * 4 * FRAME_STRIDE] = (uint8_t)clip_sample(sample);
    }
    if (half == 0)
        shared->modes[MODES_AT(p % 4, p / 4)] = (uint8_t)macroblock->mode16;
    warp_barrier();
}
