/*
 * luma.h - chooses the luma modes of macroblocks, and computes levels and the decoder's samples.
 *
 * A warp has a macroblock. It first finds the best of the four 16 x 16 modes. Then it chooses the
 * modes of the 4 x 4 blocks in 10 steps, up to two blocks at a time, each half of the warp one: a
 * block needs the blocks on its left and above, the one above on the right included. As soon as the
 * 4 x 4 modes cost more than the best 16 x 16 mode, that one is used.
 */
#pragma once

#include "gpu/webp/modes.h"

#define LUMA_STEPS 10

/* ---- shared memory of a warp ---- */

/* The samples around a block and in it: rows from -1 on, columns from -4 to 19. */
#define FRAME_STRIDE   24
#define FRAME_AT(x, y) (((y) + 1) * FRAME_STRIDE + (x) + 4)
/* The modes of a macroblock's blocks, and around them: rows and columns from -1 on. */
#define MODES_STRIDE   5
#define MODES_AT(x, y) (((y) + 1) * MODES_STRIDE + (x) + 1)

/* Offsets in `predictors` of a half. The samples around a block are numbered from the lowest on the
 * left (0 to 3) over the corner (4) to the last above (5 to 12). */
#define MEANS3_AT       0  /* of three samples: number i is around sample i */
#define MEANS2_AT       16 /* of two: sample i and the next; 0 to 8 */
#define MEAN3_10        25 /* another copy of the mean of three samples around sample 10 */
#define EXTRA_AT        28 /* means of three number 3 and 4, sample 0, mean of three number 0 */
#define TM_AT           32 /* the TM prediction */
#define DC_AT           48 /* the DC prediction, four times */
#define SPARE_AT        63 /* written by lanes that have nothing to write */
#define HALF_PREDICTORS 64

/* The whole is aligned to 16. */
struct luma_shared {
    uint8_t predictors[2 * HALF_PREDICTORS];
    words4 chosen[2];  /* the best prediction, of each half */
    words4 source[16]; /* of each block, its rows */
    int16_t levels[256];
    uint8_t frame[17 * FRAME_STRIDE];
    /* The same samples by columns: on the left of the macroblock, and at the right of its blocks.
     */
    uint8_t columns[5][16];
    uint8_t modes[MODES_STRIDE * MODES_STRIDE + 3];
    int32_t dc[16];
    int16_t dc_levels[16];
};

/* ---- constants of lanes ---- */

/* Row r of a 4 x 4 mode's prediction: the bytes that selector[r] (select_bytes) names of the words
 * at two offsets in `predictors`: bits 0 to 7 and 8 to 15; the selector is from bit 16 on. */
#define ROW(first, second, selector) ((uint32_t)(selector) << 16 | (second) << 8 | (first))
CONSTANT uint32_t mode_rows[WEBP_MODES][4] = {
    {ROW(48, 48, 0x3210), ROW(48, 48, 0x3210), ROW(48, 48, 0x3210), ROW(48, 48, 0x3210)}, /* DC */
    {ROW(32, 32, 0x3210), ROW(36, 36, 0x3210), ROW(40, 40, 0x3210), ROW(44, 44, 0x3210)}, /* TM */
    {ROW(4, 8, 0x4321), ROW(4, 8, 0x4321), ROW(4, 8, 0x4321), ROW(4, 8, 0x4321)},         /* VE */
    {ROW(0, 0, 0x3333), ROW(0, 0, 0x2222), ROW(0, 0, 0x1111), ROW(0, 0, 0x0000)},         /* HE */
    {ROW(4, 4, 0x3210), ROW(0, 4, 0x6543), ROW(0, 4, 0x5432), ROW(0, 4, 0x4321)},         /* RD */
    {ROW(20, 20, 0x3210), ROW(4, 4, 0x3210), ROW(0, 20, 0x6543), ROW(0, 4, 0x6542)},      /* VR */
    {ROW(4, 8, 0x5432), ROW(4, 8, 0x6543), ROW(8, 8, 0x3210), ROW(8, 12, 0x4321)},        /* LD */
    {ROW(20, 24, 0x4321), ROW(4, 8, 0x5432), ROW(20, 24, 0x5432), ROW(4, 8, 0x7543)},     /* VL */
    {ROW(16, 4, 0x6543), ROW(16, 28, 0x5342), ROW(16, 0, 0x7261), ROW(16, 0, 0x6150)},    /* HD */
    {ROW(16, 0, 0x5162), ROW(16, 0, 0x4051), ROW(16, 28, 0x6670), ROW(28, 28, 0x2222)},   /* HU */
};
#undef ROW

/* Lane p of a half has sample p around the block, later the mode p, then the pixel p. */
struct luma_lane {
    uint32_t mode_rows[4];
    int around;        /* FRAME_AT() of its sample, relative to that of the block's corner */
    int before, after; /* the same of the samples next to it */
    int means3_at, means2_at, extra_at, tm_at; /* what it writes to `predictors` */
    bool extra_is_dc;
    uint32_t top_byte, left_byte; /* selectors of the samples above and on the left */
    struct lane_quantiser quantiser;
    int order; /* of its coefficient */
};

DEVICE int sample_around(int sample)
{
    sample = sample < 0 ? 0 : sample > 12 ? 12 : sample;
    return sample < 4 ? (4 - sample) * FRAME_STRIDE : sample - 4;
}

SIMT struct luma_lane luma_lane_of(int lane)
{
    struct luma_lane to;
    int p = lane % HALF_LANES, half = lane / HALF_LANES * HALF_PREDICTORS;
    int sample = p < 13 ? p : 0; /* 13 is needed for a copy of sample 0 */
    for (int i = 0; i < 4; i++)
        to.mode_rows[i] = mode_rows[p < WEBP_MODES ? p : 0][i] + (uint32_t)(half | half << 8);
    to.around = sample_around(sample);
    to.before = sample_around(sample - 1);
    to.after = sample_around(sample + 1);
    to.top_byte = 0x4440u | (uint32_t)p % 4;
    to.left_byte = 0x4440u | (uint32_t)p / 4;
    to.means3_at = half + (p < 13 ? MEANS3_AT + p : SPARE_AT);
    to.means2_at = half + (p < 9 ? MEANS2_AT + p : SPARE_AT);
    to.extra_at = half + (p == 3    ? EXTRA_AT
                          : p == 4  ? EXTRA_AT + 1
                          : p == 0  ? EXTRA_AT + 2
                          : p == 13 ? EXTRA_AT + 3
                          : p == 10 ? MEAN3_10
                          : p == 1  ? DC_AT
                          : p == 2  ? DC_AT + 1
                          : p == 5  ? DC_AT + 2
                          : p == 6  ? DC_AT + 3
                                    : SPARE_AT);
    to.tm_at = half + TM_AT + p;
    to.extra_is_dc = p == 1 || p == 2 || p == 5 || p == 6;
    to.order = coding_order[coefficient_of(lane)];
    return to;
}

/* ---- a macroblock ---- */

struct luma_macroblock {
    uint32_t x;
    const struct webp_segment *segment;
    uint32_t source[2]; /* lane l: 8 samples of row l / 2, from column l % 2 * 8 on */
    uint32_t best16;    /* score of the best 16 x 16 mode */
    int mode16, dc16;
    uint32_t nonzero; /* as in struct webp_luma */
    bool is_16x16;
};

/* Writes the source, and the samples and modes above, to shared memory. edge: of lanes 0 to 3 the
 * words of the macroblock above, of lane 4 the first word of the next one. */
SIMT void place_around(struct luma_shared *shared, const struct mode_row *row,
                       const struct luma_macroblock *macroblock, uint64_t edge)
{
    int lane = lane_index();
    uint32_t samples = (uint32_t)edge, last = warp_read(samples, 3) >> 24;
    if (macroblock->x + 1 == row->image->columns && lane == 4)
        samples = last * 0x01010101u;
    if (row->y == 0)
        samples = 0x7F7F7F7F;
    uint32_t *frame = (uint32_t *)(void *)shared->frame;
    if (lane < 4)
        shared->modes[MODES_AT(lane, -1)] = row->y > 0 ? (uint8_t)(edge >> 32 & 15) : 0;
    if (lane < 5)
        frame[FRAME_AT(4 * lane, -1) / 4] = samples;
    /* The blocks at the right need the samples above the next macroblock, too. */
    if (lane == 4)
        frame[FRAME_AT(16, 3) / 4] = frame[FRAME_AT(16, 7) / 4] = frame[FRAME_AT(16, 11) / 4] =
            samples;
    uint32_t *source = (uint32_t *)(void *)shared->source;
    int at = (lane / 8 * 4 + lane % 2 * 2) * 4 + lane / 2 % 4;
    source[at] = macroblock->source[0];
    source[at + 4] = macroblock->source[1];
    warp_barrier();
}

/* Whether all samples of the source are equal. */
SIMT bool is_flat(const struct luma_macroblock *macroblock)
{
    uint32_t first = (warp_read(macroblock->source[0], 0) & 255) * 0x01010101u;
    return !warp_any(macroblock->source[0] != first || macroblock->source[1] != first);
}

/* Finds the best 16 x 16 mode: the least sum of squared differences, and cost of the mode. */
SIMT void choose_16x16(const struct luma_shared *shared, const struct mode_row *row,
                       struct luma_macroblock *macroblock)
{
    int lane = lane_index();
    uint32_t first = macroblock->source[0], second = macroblock->source[1];
    const uint32_t *above =
        (const uint32_t *)(const void *)&shared->frame[FRAME_AT(lane % 2 * 8, -1)];
    uint32_t top0 = above[0], top1 = above[1];
    uint32_t left = shared->frame[FRAME_AT(-1, lane / 2)];
    bool has_top = row->y > 0, has_left = macroblock->x > 0;
    uint32_t around = has_left && lane % 2 == 0 ? left : 0;
    if (has_top && lane < 2)
        around = dot_unsigned(top0, 0x01010101, dot_unsigned(top1, 0x01010101, around));
    int sum = (int)warp_sum(around);
    uint32_t dc = has_top && has_left   ? (uint32_t)(sum + 16) >> 5
                  : has_top || has_left ? (uint32_t)(sum + 8) >> 4
                                        : 128;
    uint32_t own = dot_unsigned(first, 0x01010101, dot_unsigned(second, 0x01010101, 0));
    uint32_t all = warp_sum(own);
    uint32_t squares = warp_sum(dot_unsigned(first, first, dot_unsigned(second, second, 0)));
    int difference = (int)left - shared->frame[FRAME_AT(-1, -1)];
    uint32_t tm0 = tm_prediction(top0, difference), tm1 = tm_prediction(top1, difference);
    uint32_t scores[4] = {
        squares - 2 * dc * all + 256 * dc * dc,
        squares + warp_sum(add_products(first, tm0, add_products(second, tm1, 0))),
        squares + warp_sum(add_products(first, top0, add_products(second, top1, 0))),
        squares + warp_sum(8 * left * left - 2 * left * own),
    };
    const uint32_t costs[4] = {663 * 106, 919 * 106, 872 * 106, 919 * 106};
    macroblock->best16 = ~0u;
    macroblock->dc16 = (int)dc;
    UNROLL
    for (int mode = 0; mode < 4; mode++) {
        uint32_t score = mode_score(scores[mode], costs[mode]);
        macroblock->mode16 = score < macroblock->best16 ? mode : macroblock->mode16;
        macroblock->best16 = score < macroblock->best16 ? score : macroblock->best16;
    }
    /* libwebp decides on flat macroblocks at the edges of the image at once. */
    macroblock->is_16x16 = (!has_top || !has_left) && is_flat(macroblock);
    if (macroblock->is_16x16)
        macroblock->mode16 = has_left ? MODE_VE : MODE_DC;
}

/* ---- 4 x 4 modes ---- */

/* The blocks of a step: one, or two in the halves of the warp. If there is one, both halves compute
 * it, and the first one writes the results. */
struct luma_step {
    int block, x, y; /* of the lane's half */
    int first;       /* block of the first half */
    bool two, writes;
};

DEVICE struct luma_step luma_step_of(int step, int lane)
{
    struct luma_step to;
    int y = step > 3 ? (step - 2) / 2 : 0;
    to.two = y < 3 && step >= 2 * (y + 1);
    to.first = 4 * y + step - 2 * y;
    to.y = to.two && lane >= HALF_LANES ? y + 1 : y;
    to.x = step - 2 * to.y;
    to.block = 4 * to.y + to.x;
    to.writes = to.two || lane < HALF_LANES;
    return to;
}

/* Writes what the rows of the ten predictions consist of to shared->predictors. */
SIMT void place_predictors(struct luma_shared *shared, const struct luma_lane *lane,
                           const struct luma_step *step)
{
    const uint8_t *corner = &shared->frame[FRAME_AT(4 * step->x - 1, 4 * step->y - 1)];
    int sample = corner[lane->around], before = corner[lane->before], after = corner[lane->after];
    uint32_t top = *(const uint32_t *)(const void *)(corner + 1);
    uint32_t left = *(const uint32_t *)(const void *)&shared->columns[step->x][4 * step->y];
    uint32_t sum = dot_unsigned(top, 0x01010101, dot_unsigned(left, 0x01010101, 4));
    int means3 = (before + 2 * sample + after + 2) >> 2, means2 = (sample + after + 1) >> 1;
    int tm = clip_sample((int)select_bytes(top, 0, lane->top_byte) +
                         (int)select_bytes(left, 0, lane->left_byte) - corner[0]);
    int p = lane_index() % HALF_LANES;
    int extra = lane->extra_is_dc ? (int)(sum >> 3) : p == 0 ? sample : means3;
    shared->predictors[lane->means3_at] = (uint8_t)means3;
    shared->predictors[lane->means2_at] = (uint8_t)means2;
    shared->predictors[lane->extra_at] = (uint8_t)extra;
    shared->predictors[lane->tm_at] = (uint8_t)tm;
    warp_barrier();
}

DEVICE uint32_t word_at(const uint8_t *bytes, uint32_t offset)
{
    return *(const uint32_t *)(const void *)(bytes + offset);
}

/* Chooses the mode of each half's block, and writes its prediction to shared->chosen. Adds the
 * score to *total and the cost of its bits to *bits. */
SIMT uint32_t choose_4x4(struct luma_shared *shared, const struct luma_lane *lane,
                         const struct luma_step *step, uint32_t *total, uint32_t *bits)
{
    const uint8_t *modes = &shared->modes[MODES_AT(step->x, step->y)];
    uint32_t p = (uint32_t)lane_index() % HALF_LANES, squares = 0, rows[4];
    uint32_t around = modes[-MODES_STRIDE] * WEBP_MODES + modes[-1];
    uint32_t cost = mode_costs[around * WEBP_MODES + (p < WEBP_MODES ? p : 0)];
    words4 block = shared->source[step->block];
    uint32_t source[4] = {block.x, block.y, block.z, block.w};
    UNROLL
    for (int i = 0; i < 4; i++) {
        uint32_t parts = lane->mode_rows[i];
        rows[i] = select_bytes(word_at(shared->predictors, parts & 255),
                               word_at(shared->predictors, parts >> 8 & 255), parts >> 16);
        squares = dot_unsigned(source[i], source[i], squares);
        squares = add_products(source[i], rows[i], squares);
    }
    uint32_t key = (mode_score(squares, 11 * cost) * 16) | p;
    key = p < WEBP_MODES ? key : ~0u;
    bool is_first = lane_index() < HALF_LANES;
    uint32_t first = warp_min(is_first ? key : ~0u), second = warp_min(is_first ? ~0u : key);
    uint32_t mode = (is_first ? first : second) & 15;
    if (p == mode) {
        words4 chosen = {rows[0], rows[1], rows[2], rows[3]};
        shared->chosen[is_first ? 0 : 1] = chosen;
    }
    *total += (first >> 4) + (step->two ? second >> 4 : 0);
    *bits += warp_read(cost, (int)(first & 15));
    if (step->two)
        *bits += warp_read(cost, HALF_LANES + (int)(second & 15));
    warp_barrier();
    return mode;
}

/* Codes each half's block with the chosen prediction. Returns in which lanes levels are not 0. */
SIMT uint32_t code_4x4(struct luma_shared *shared, const struct mode_row *row,
                       const struct luma_lane *lane, const struct luma_step *step, uint32_t mode)
{
    int p = lane_index() % HALF_LANES;
    int prediction = ((const uint8_t *)shared->chosen)[lane_index()];
    int source = ((const uint8_t *)&shared->source[step->block])[p];
    int coefficient = transform(source - prediction, &row->factors);
    int level = quantise(&coefficient, &lane->quantiser);
    uint32_t nonzero = warp_ballot(level != 0);
    int sample = clip_sample(prediction + inverse_transform(coefficient, &row->factors));
    if (step->writes) {
        int x = 4 * step->x + p % 4, y = 4 * step->y + p / 4;
        shared->frame[FRAME_AT(x, y)] = (uint8_t)sample;
        if (p % 4 == 3)
            shared->columns[step->x + 1][y] = (uint8_t)sample;
        shared->levels[step->block * 16 + lane->order] = (int16_t)level;
        if (p == 0)
            shared->modes[MODES_AT(step->x, step->y)] = (uint8_t)mode;
    }
    warp_barrier();
    return nonzero;
}

/* Tries 4 x 4 modes. Sets is_16x16 if they cost more than the best 16 x 16 mode. */
SIMT void try_4x4(struct luma_shared *shared, const struct mode_row *row,
                  const struct luma_lane *lane, struct luma_macroblock *macroblock)
{
    uint32_t penalty = macroblock->segment->penalty_4x4, total = 0, bits = 0;
    uint32_t limit = macroblock->best16 > penalty ? macroblock->best16 - penalty : 0;
    macroblock->is_16x16 = limit == 0;
    NO_UNROLL
    for (int i = 0; i < LUMA_STEPS && !macroblock->is_16x16; i++) {
        struct luma_step step = luma_step_of(i, lane_index());
        place_predictors(shared, lane, &step);
        uint32_t mode = choose_4x4(shared, lane, &step, &total, &bits);
        if (total >= limit || bits > (uint32_t)row->frame->header_bits_max) {
            macroblock->is_16x16 = true;
        } else {
            uint32_t nonzero = code_4x4(shared, row, lane, &step, mode);
            macroblock->nonzero |= (uint32_t)((nonzero & 0xFFFF) != 0) << step.first;
            if (step.two)
                macroblock->nonzero |= (uint32_t)(nonzero >> 16 != 0) << (step.first + 2);
        }
    }
}

/* ---- 16 x 16 modes ---- */

/* A step of the Walsh-Hadamard transform: element `index` of the transform of four values. */
DEVICE int hadamard(const int values[4], int index)
{
    int sign1 = index & 2 ? -1 : 1, sign2 = (index + 1) & 2 ? -1 : 1, sign3 = index & 1 ? -1 : 1;
    return values[0] + values[1] * sign1 + values[2] * sign2 + values[3] * sign3;
}

/* The same of the values in the lanes of a half that are `stride` apart. */
SIMT int hadamard_lanes(int value, int first, int stride, int index)
{
    int values[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        values[i] = (int)warp_read((uint32_t)value, first + i * stride);
    return hadamard(values, index);
}

/* Transforms and codes the DC coefficients of the blocks in shared->dc, and replaces them by the
 * decoder's. Returns whether there are levels that are not 0. */
SIMT bool code_dc(struct luma_shared *shared, const struct webp_segment *segment)
{
    int p = lane_index() % HALF_LANES, half = lane_index() - p;
    struct lane_quantiser quantiser = lane_quantiser_of(&segment->y2, p, 0);
    int value = hadamard(&shared->dc[p / 4 * 4], p % 4);
    value = hadamard_lanes(value, half + p % 4, 4, p / 4) >> 1;
    int level = quantise(&value, &quantiser);
    bool any = warp_any(level != 0);
    value = hadamard_lanes(value, half + p % 4, 4, p / 4);
    value = hadamard_lanes(value, half + p / 4 * 4, 1, p % 4);
    warp_barrier();
    if (lane_index() == p) {
        shared->dc_levels[coding_order[p]] = (int16_t)level;
        shared->dc[p] = (value + 3) >> 3;
    }
    warp_barrier();
    return any;
}

/* The position of the lane's pixel in its block of pair `pair`. */
SIMT void pixel_of(int pair, int *x, int *y)
{
    int block = 2 * pair + lane_index() / HALF_LANES, p = lane_index() % HALF_LANES;
    *x = block % 4 * 4 + p % 4;
    *y = block / 4 * 4 + p / 4;
}

SIMT int predict_16x16(const struct luma_shared *shared, const struct luma_macroblock *macroblock,
                       int x, int y)
{
    int top = shared->frame[FRAME_AT(x, -1)], left = shared->frame[FRAME_AT(-1, y)];
    int tm = clip_sample(top + left - shared->frame[FRAME_AT(-1, -1)]);
    int mode = macroblock->mode16, value = mode == MODE_TM ? tm : macroblock->dc16;
    value = mode == MODE_VE ? top : value;
    return mode == MODE_HE ? left : value;
}

/* Codes the macroblock with its 16 x 16 mode. */
SIMT void code_16x16(struct luma_shared *shared, const struct mode_row *row,
                     const struct luma_lane *lane, struct luma_macroblock *macroblock)
{
    int coefficients[8], p = lane_index() % HALF_LANES, half = lane_index() / HALF_LANES, x, y;
    UNROLL
    for (int i = 0; i < 8; i++) {
        pixel_of(i, &x, &y);
        int source = ((const uint8_t *)&shared->source[2 * i + half])[p];
        coefficients[i] =
            transform(source - predict_16x16(shared, macroblock, x, y), &row->factors);
        if (p == 0)
            shared->dc[2 * i + half] = coefficients[i];
    }
    warp_barrier();
    macroblock->nonzero = (uint32_t)code_dc(shared, macroblock->segment) << 24;
    UNROLL
    for (int i = 0; i < 8; i++) {
        int dc = shared->dc[2 * i + half];
        int level = quantise(&coefficients[i], &lane->quantiser);
        coefficients[i] = p == 0 ? dc : coefficients[i];
        level = p == 0 ? 0 : level;
        shared->levels[(2 * i + half) * 16 + lane->order] = (int16_t)level;
        uint32_t nonzero = warp_ballot(level != 0);
        macroblock->nonzero |= (uint32_t)((nonzero & 0xFFFF) != 0) << 2 * i |
                               (uint32_t)(nonzero >> 16 != 0) << (2 * i + 1);
        pixel_of(i, &x, &y);
        int sample = predict_16x16(shared, macroblock, x, y) +
                     inverse_transform(coefficients[i], &row->factors);
        shared->frame[FRAME_AT(x, y)] = (uint8_t)clip_sample(sample);
    }
    if (half == 0)
        shared->modes[MODES_AT(p % 4, p / 4)] = (uint8_t)macroblock->mode16;
    warp_barrier();
}

/* ---- rows of macroblocks ---- */

/* Publishes the edge for the row below, and writes the results to global memory. */
SIMT void store_luma(const struct luma_shared *shared, const struct mode_row *row,
                     const struct luma_macroblock *macroblock)
{
    int lane = lane_index(), p = lane % HALF_LANES;
    size_t index = row_start(row) + macroblock->x;
    const struct webp_encode_descriptor *image = row->image;
    if (lane < WEBP_EDGE_WORDS) {
        uint64_t mode = shared->modes[MODES_AT(lane, 3)];
        publish_alone(&image->luma_edges[index * WEBP_EDGE_WORDS + (size_t)lane],
                      WEBP_EDGE_VALID | mode << 32 |
                          word_at(shared->frame, (uint32_t)FRAME_AT(4 * lane, 15)));
    }
    int16_t *levels = image->levels + index * WEBP_LEVELS;
    *(words4 *)(void *)(levels + WEBP_LEVELS_LUMA + 8 * lane) =
        *(const words4 *)(const void *)(shared->levels + 8 * lane);
    if (macroblock->is_16x16 && lane < 16)
        levels[lane] = shared->dc_levels[lane];
    uint32_t mode = (uint32_t)shared->modes[MODES_AT(p % 4, p / 4)] << p % 8 * 4;
    uint32_t low = warp_or(p < 8 ? mode : 0), high = warp_or(p < 8 ? 0 : mode);
    if (lane == 0) {
        struct webp_luma luma = {(uint64_t)high << 32 | low, macroblock->nonzero,
                                 macroblock->is_16x16};
        image->luma[index] = luma;
    }
}

/* Moves the samples and modes at the right of the macroblock to the left of the next one. */
SIMT void move_right(struct luma_shared *shared)
{
    int lane = lane_index();
    if (lane < 17) {
        uint8_t sample = shared->frame[FRAME_AT(15, lane - 1)];
        shared->frame[FRAME_AT(-1, lane - 1)] = sample;
        if (lane > 0)
            shared->columns[0][lane - 1] = sample;
    }
    if (lane < 4)
        shared->modes[MODES_AT(-1, lane)] = shared->modes[MODES_AT(3, lane)];
    warp_barrier();
}

SIMT void start_luma_row(struct luma_shared *shared, uint32_t y)
{
    int lane = lane_index();
    warp_barrier();
    if (lane < 16)
        shared->frame[FRAME_AT(-1, lane)] = shared->columns[0][lane] = 129;
    if (lane == 16)
        shared->frame[FRAME_AT(-1, -1)] = y > 0 ? 129 : 127;
    if (lane < 4)
        shared->modes[MODES_AT(-1, lane)] = MODE_DC;
    warp_barrier();
}

/* Returns the word of the edge above that the lane needs for macroblock x, or NULL. */
SIMT const uint64_t *luma_edge_above(const struct mode_row *row, uint32_t x)
{
    uint32_t lane = (uint32_t)lane_index(), columns = row->image->columns;
    if (row->y == 0 || x >= columns || lane > 4 || (lane == 4 && x + 1 == columns))
        return NULL;
    return row->image->luma_edges + (row_start(row) - columns + x) * WEBP_EDGE_WORDS + lane;
}

SIMT words2 load_source(const struct mode_row *row, uint32_t x)
{
    uint32_t lane = (uint32_t)lane_index(), stride = 16 * row->image->columns;
    x = x < row->image->columns ? x : 0;
    return load_words2(row->image->y + (size_t)(16 * row->y + lane / 2) * stride + 16 * x +
                       lane % 2 * 8);
}

SIMT void code_luma_row(struct luma_shared *shared, const struct mode_row *row)
{
    struct luma_lane lane = luma_lane_of(lane_index());
    words2 source = load_source(row, 0);
    const uint64_t *at = luma_edge_above(row, 0);
    uint64_t edge = at ? poll_alone(at) : 0;
    start_luma_row(shared, row->y);
    NO_UNROLL
    for (uint32_t x = 0; x < row->image->columns; x++) {
        struct luma_macroblock macroblock = {
            x, segment_at(row, x), {source.x, source.y}, 0, 0, 0, 0, false};
        edge = await_edge(at, edge);
        place_around(shared, row, &macroblock, edge);
        /* These loads take as long as the choice of the modes. */
        source = load_source(row, x + 1);
        at = luma_edge_above(row, x + 1);
        edge = at ? poll_alone(at) : 0;
        int k = coefficient_of(lane_index());
        lane.quantiser =
            lane_quantiser_of(&macroblock.segment->y1, k, macroblock.segment->sharpen[k]);
        choose_16x16(shared, row, &macroblock);
        if (!macroblock.is_16x16)
            try_4x4(shared, row, &lane, &macroblock);
        if (macroblock.is_16x16)
            code_16x16(shared, row, &lane, &macroblock);
        store_luma(shared, row, &macroblock);
        move_right(shared);
    }
}
