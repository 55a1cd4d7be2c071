/*
 * luma_4.h - chooses the modes of the 4 x 4 blocks of macroblocks, and codes them.
 *
 * The first half of a warp has the blocks of rows 0 and 2 of a macroblock, from left to right, the
 * second half those of rows 1 and 3, two steps later. So the blocks on the left, above, and above
 * on the right are complete. As soon as the modes cost more than the best 16 x 16 mode, that one is
 * used.
 */
#pragma once

#include "gpu/webp/luma_16.h"

/* Steps by which the second half begins later. */
#define HALF_DELAY 2
/* The step of the first block at the right. */
#define FIRST_RIGHT 3

/* Offsets in luma_shared.predictors of a half. The samples around a block are numbered from the
 * lowest on the left (0 to 3) over the corner (4) to the last above (5 to 12). */
#define MEANS3_AT 0  /* of three samples: number i is around sample i */
#define MEANS2_AT 16 /* of two: sample i and the next; 0 to 8 */
#define MEAN3_10  25 /* another copy of the mean of three samples around sample 10 */
#define EXTRA_AT  28 /* means of three number 3 and 4, sample 0, mean of three number 0 */
#define TM_AT     32 /* the TM prediction */
#define DC_AT     48 /* the DC prediction, four times */
#define SPARE_AT  52 /* for lanes that have nothing to write */

/* ---- constants of lanes ---- */

/* The rows of a mode's prediction: the bytes that select_bytes selects from words 0 and 1, 2 and 3,
 * 0 and 4, and 2 and 5. The words are given as offsets in `predictors`: 0 to 12 are means of three,
 * 16 to 24 means of two, 28 EXTRA_AT, 32 to 44 TM_AT, and 48 DC_AT. */
struct mode_rows {
    uint8_t words[6];
    uint16_t selectors[4];
};
CONSTANT struct mode_rows mode_rows[WEBP_MODES] = {
    {{48, 48, 48, 48, 48, 48}, {0x3210, 0x3210, 0x3210, 0x3210}}, /* DC */
    {{32, 32, 36, 36, 40, 44}, {0x3210, 0x3210, 0x7654, 0x7654}}, /* TM */
    {{4, 8, 4, 8, 8, 8}, {0x4321, 0x4321, 0x4321, 0x4321}},       /* VE */
    {{0, 0, 0, 0, 0, 0}, {0x3333, 0x2222, 0x1111, 0x0000}},       /* HE */
    {{4, 4, 0, 4, 0, 4}, {0x3210, 0x6543, 0x1076, 0x4321}},       /* RD */
    {{20, 20, 4, 4, 0, 0}, {0x3210, 0x3210, 0x2107, 0x2106}},     /* VR */
    {{8, 4, 8, 4, 8, 12}, {0x1076, 0x2107, 0x3210, 0x4321}},      /* LD */
    {{20, 24, 4, 8, 24, 8}, {0x4321, 0x5432, 0x5432, 0x7543}},    /* VL */
    {{16, 4, 16, 28, 0, 0}, {0x6543, 0x5342, 0x7261, 0x6150}},    /* HD */
    {{16, 0, 16, 0, 28, 28}, {0x5162, 0x4051, 0x6670, 0x6666}},   /* HU */
};

/* Lane p of a half has sample p around the block, later the mode p, then the pixel p. Offsets are
 * from the start of struct mode_shared, for block 0 of the half. */
struct luma_lane {
    uint32_t p, half;
    uint32_t around, before, after; /* its sample around the block, and those next to it */
    uint32_t corner;                /* sample 4 */
    uint32_t left, modes;
    uint32_t source, pixel, level;    /* of its pixel, and of its coefficient */
    uint32_t predictors;              /* byte p of the half's predictors */
    uint32_t extra, extra_from;       /* where it writes another byte, and which: EXTRA_... */
    uint32_t words[3];                /* of its mode (struct mode_rows), in 16 bits each */
    uint32_t selectors[2];            /* the same */
    uint32_t costs;                   /* of its mode */
    uint32_t first_mask, second_mask; /* ~0 if it has no mode of this half */
    struct lane_quantiser quantiser;
};

/* What a lane writes to luma_lane.extra, as a selector of select_bytes. */
enum { EXTRA_MEANS3 = 0, EXTRA_SAMPLE = 4, EXTRA_DC = 5 };

DEVICE uint32_t sample_around(int sample)
{
    sample = sample < 0 ? 0 : sample > 12 ? 12 : sample;
    return (uint32_t)(sample < 4 ? (4 - sample) * FRAME_STRIDE : sample - 4);
}

/* Besides its mean of three, lane p writes another byte: sets which, and where in `predictors`. */
DEVICE void set_extra(struct luma_lane *lane, uint32_t p)
{
    static const uint8_t at[HALF_LANES] = {EXTRA_AT + 2, DC_AT,        DC_AT + 1,    EXTRA_AT,
                                           EXTRA_AT + 1, DC_AT + 2,    DC_AT + 3,    SPARE_AT,
                                           SPARE_AT + 1, SPARE_AT + 2, MEAN3_10,     SPARE_AT + 3,
                                           SPARE_AT + 4, EXTRA_AT + 3, SPARE_AT + 5, SPARE_AT + 6};
    lane->extra = at[p];
    lane->extra_from = p == 0                                 ? EXTRA_SAMPLE
                       : p == 1 || p == 2 || p == 5 || p == 6 ? EXTRA_DC
                                                              : EXTRA_MEANS3;
}

/* start: offset of the warp's struct luma_shared. */
SIMT struct luma_lane luma_lane_of(uint32_t start)
{
    struct luma_lane to = {0};
    /* The compiler would compute the index again and again. It does not know this one. */
    uint32_t lane = warp_read((uint32_t)lane_index(), lane_index());
    uint32_t p = lane % HALF_LANES, half = lane / HALF_LANES;
    uint32_t predictors = start + half * HALF_PREDICTORS;
    int sample = p < 13 ? (int)p : 0; /* lane 13 has sample 0, too */
    to.p = p;
    to.half = half;
    to.corner = start + LUMA_AT(frame) + FRAME_AT(-1, -1) + half * 4 * FRAME_STRIDE;
    to.around = to.corner + sample_around(sample);
    to.before = to.corner + sample_around(sample - 1);
    to.after = to.corner + sample_around(sample + 1);
    to.left = start + LUMA_AT(left) + half * HALF_LEFT;
    to.modes = start + LUMA_AT(modes) + MODES_AT(0, 0) + half * MODES_STRIDE;
    to.source = start + LUMA_AT(source) + half * HALF_BLOCKS * 16 + p;
    to.pixel = to.corner + 1 + p % 4 + (1 + p / 4) * FRAME_STRIDE;
    to.level = start + LUMA_AT(levels) + half * HALF_BLOCKS * 32 +
               2 * coding_order[coefficient_of((int)p)];
    to.predictors = predictors + p;
    set_extra(&to, p);
    to.extra += predictors;
    const struct mode_rows *rows = &mode_rows[p < WEBP_MODES ? p : 0];
    UNROLL
    for (int i = 0; i < 3; i++)
        to.words[i] = (predictors + rows->words[2 * i]) | (predictors + rows->words[2 * i + 1])
                                                              << 16;
    UNROLL
    for (int i = 0; i < 2; i++)
        to.selectors[i] = rows->selectors[2 * i] | (uint32_t)rows->selectors[2 * i + 1] << 16;
    to.costs = (uint32_t)offsetof(struct mode_shared, costs) + 2 * (p < WEBP_MODES ? p : 0);
    to.first_mask = half == 0 && p < WEBP_MODES ? 0 : ~0u;
    to.second_mask = half == 1 && p < WEBP_MODES ? 0 : ~0u;
    return to;
}

/* ---- 4 x 4 modes ---- */

/* The block of a half in a step, as offsets from those of its block 0. In steps in which a half has
 * no block, it codes block 3: the second half before this block can be coded, and the first half
 * again, with the same result. The other half does not access this block then. */
struct luma_block {
    uint32_t index; /* in the half: 0 to 7 */
    uint32_t frame, left, modes;
};

/* delay: of the half. */
DEVICE struct luma_block luma_block_of(uint32_t step, uint32_t delay)
{
    struct luma_block to;
    uint32_t index = step - delay;
    to.index = index < HALF_BLOCKS ? index : 3;
    uint32_t second = to.index / 4; /* of the half's rows of blocks, which is two further down */
    to.frame = 4 * to.index + second * (8 * FRAME_STRIDE - 16);
    to.left = 4 * (to.index + second);
    to.modes = to.index + second * (2 * MODES_STRIDE - 4);
    return to;
}

DEVICE uint32_t word_at(const uint8_t *memory, uint32_t offset)
{
    return *(const uint32_t *)(const void *)(memory + offset);
}

/* Writes the four samples above on the right of the macroblock to its frame, above all rows of
 * blocks: the blocks at the right need them. Waits until the row above has them. So a row is less
 * than two macroblocks later than the row above. In the last column, the last sample above repeats.
 */
SIMT void place_right(struct luma_shared *shared, const struct mode_row *row,
                      struct luma_macroblock *macroblock)
{
    uint32_t *frame = (uint32_t *)(void *)shared->frame;
    macroblock->next_edge = await_edge(macroblock->next_at, macroblock->next_edge);
    uint32_t samples = warp_read((uint32_t)macroblock->next_edge, 0);
    if (macroblock->x + 1 == row->image->columns)
        samples = shared->frame[FRAME_AT(15, -1)] * 0x01010101u;
    if (row->y == 0)
        samples = 0x7F7F7F7F;
    if (lane_index() < 4)
        frame[FRAME_AT(16, 4 * lane_index() - 1) / 4] = samples;
    warp_barrier();
}

/* Writes the half's predictors, from which the rows of the ten predictions are selected. */
SIMT void place_predictors(uint8_t *memory, const struct luma_lane *lane,
                           const struct luma_block *block)
{
    uint32_t p = lane->p;
    uint32_t sample = memory[lane->around + block->frame];
    uint32_t before = memory[lane->before + block->frame];
    uint32_t after = memory[lane->after + block->frame];
    uint32_t corner = memory[lane->corner + block->frame];
    uint32_t top = word_at(memory, lane->corner + block->frame + 1);
    uint32_t left = word_at(memory, lane->left + block->left);
    uint32_t dc = dot_unsigned(top, 0x01010101, dot_unsigned(left, 0x01010101, 4)) >> 3;
    uint32_t means3 = (before + 2 * sample + after + 2) >> 2;
    int tm = (int)(select_bytes(top, 0, 0x4440 | p % 4) + select_bytes(left, 0, 0x4440 | p / 4));
    uint32_t extra = select_bytes(means3, select_bytes(sample, dc, 0x7740), lane->extra_from);
    memory[lane->predictors + MEANS3_AT] = (uint8_t)means3;
    memory[lane->predictors + TM_AT] = (uint8_t)clip_sample(tm - (int)corner);
    if (p < 9)
        memory[lane->predictors + MEANS2_AT] = (uint8_t)((sample + after + 1) >> 1);
    memory[lane->extra] = (uint8_t)extra;
    warp_barrier();
}

/* The mode of a half's block, and its prediction of the lane's pixel. */
struct luma_choice {
    uint32_t mode;
    int prediction;
};

/* Chooses the mode of each half's block. Adds the scores of the blocks of this step to *total. */
SIMT struct luma_choice choose_4x4(const uint8_t *memory, const struct luma_lane *lane,
                                   const struct luma_block *block, uint32_t step, uint32_t *total)
{
    uint32_t modes = lane->modes + block->modes, p = lane->p, squares = 0, words[6];
    uint32_t around = memory[modes - MODES_STRIDE] * 2u * WEBP_MODES * WEBP_MODES +
                      memory[modes - 1] * 2u * WEBP_MODES;
    uint32_t bits = *(const uint16_t *)(const void *)(memory + lane->costs + around);
    words4 source = *(const words4 *)(const void *)(memory + lane->source - p + 16 * block->index);
    UNROLL
    for (int i = 0; i < 3; i++) {
        words[2 * i] = word_at(memory, lane->words[i] & 0xFFFF);
        words[2 * i + 1] = word_at(memory, lane->words[i] >> 16);
    }
    uint32_t row0 = select_bytes(words[0], words[1], lane->selectors[0]);
    uint32_t row1 = select_bytes(words[2], words[3], lane->selectors[0] >> 16);
    uint32_t row2 = select_bytes(words[0], words[4], lane->selectors[1]);
    uint32_t row3 = select_bytes(words[2], words[5], lane->selectors[1] >> 16);
    squares = add_squares(source.x, row0, add_squares(source.y, row1, squares));
    squares += add_squares(source.z, row2, add_squares(source.w, row3, 0));
    /* The least key has the least score and, of equal ones, the first mode. */
    uint32_t key = 16 * 256 * squares + (16 * 11 * bits + p);
    uint32_t first = warp_min(key | lane->first_mask), second = warp_min(key | lane->second_mask);
    uint32_t mode = (lane->half ? second : first) & 15;
    int winner = (int)(lane->half * HALF_LANES + mode);
    row0 = warp_read(row0, winner);
    row1 = warp_read(row1, winner);
    row2 = warp_read(row2, winner);
    row3 = warp_read(row3, winner);
    uint32_t even = p & 8 ? row2 : row0, odd = p & 8 ? row3 : row1;
    struct luma_choice to;
    to.mode = mode;
    to.prediction = (int)select_bytes(p & 4 ? odd : even, 0, 0x4440 | p % 4);
    *total += (step < HALF_BLOCKS ? first >> 4 : 0) + (step >= HALF_DELAY ? second >> 4 : 0);
    return to;
}

/* Codes each half's block with the chosen prediction. */
SIMT void code_4x4(uint8_t *memory, const struct mode_row *row, const struct luma_lane *lane,
                   const struct luma_block *block, const struct luma_choice *choice)
{
    uint32_t p = lane->p;
    int source = memory[lane->source + 16 * block->index];
    int coefficient = transform(source - choice->prediction, &row->factors);
    int level = quantise(&coefficient, &lane->quantiser);
    int sample = choice->prediction + inverse_transform(coefficient, &row->factors);
    memory[lane->pixel + block->frame] = (uint8_t)clip_sample(sample);
    if (p % 4 == 3)
        memory[lane->left + block->left + 4 + p / 4] = (uint8_t)clip_sample(sample);
    *(int16_t *)(void *)(memory + lane->level + 32 * block->index) = (int16_t)level;
    if (p == 0)
        memory[lane->modes + block->modes] = (uint8_t)choice->mode;
    warp_barrier();
}

/* The cost of the bits of all 4 x 4 modes. */
SIMT uint32_t mode_bits(const uint8_t *memory, const struct luma_lane *lane)
{
    uint32_t p = lane->p, start = lane->modes - lane->half * MODES_STRIDE;
    uint32_t at = start + p / 4 * MODES_STRIDE + p % 4;
    uint32_t index = (memory[at - MODES_STRIDE] * WEBP_MODES + memory[at - 1]) * WEBP_MODES;
    return warp_sum(lane->half == 0 ? mode_costs[index + memory[at]] : 0);
}

/* Tries 4 x 4 modes. Sets is_16x16 if they cost more than the best 16 x 16 mode. */
SIMT void try_4x4(struct luma_shared *shared, uint8_t *memory, const struct mode_row *row,
                  const struct luma_lane *lane, struct luma_macroblock *macroblock)
{
    uint32_t penalty = macroblock->penalty_4x4, total = 0;
    uint32_t limit = macroblock->best16 > penalty ? macroblock->best16 - penalty : 0;
    uint32_t delay = lane->half * HALF_DELAY, step = 0;
    if (limit == 0) {
        macroblock->is_16x16 = true;
        return;
    }
    struct luma_block block = luma_block_of(0, delay);
    bool goes_on;
    do {
        if (step == FIRST_RIGHT)
            place_right(shared, row, macroblock);
        place_predictors(memory, lane, &block);
        struct luma_choice choice = choose_4x4(memory, lane, &block, step, &total);
        /* Computed here, these are ready when the block is. */
        struct luma_block next = luma_block_of(++step, delay);
        goes_on = step < HALF_BLOCKS + HALF_DELAY && total < limit;
        code_4x4(memory, row, lane, &block, &choice);
        block = next;
    } while (goes_on);
    macroblock->is_16x16 = total >= limit;
    if (macroblock->is_16x16)
        return;
    /* libwebp checks after each mode, which has the same result. */
    if (row->header_bits_max < 16 * MODE_COST_MAX)
        macroblock->is_16x16 = mode_bits(memory, lane) > row->header_bits_max;
}
