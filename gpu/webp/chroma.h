/*
 * chroma.h - chooses the chroma modes of macroblocks, and computes levels and the decoder's
 * samples.
 *
 * A warp has a macroblock: half of it has the 8 x 8 samples of U, and half those of V, when the
 * mode is chosen. Then it codes the 4 x 4 blocks in pairs, each half of the warp one.
 */
#pragma once

#include "gpu/webp/modes.h"

#define CHROMA_BLOCKS 8 /* four of U, four of V */

/* The whole is aligned to 16. [2]: of U, of V. */
struct chroma_shared {
    int16_t levels[CHROMA_BLOCKS * 16];
    uint32_t source[CHROMA_BLOCKS][4]; /* of each block, its rows */
    uint32_t top[2][2];
    uint32_t bottom[2][2]; /* the last row of the decoder's samples */
    uint8_t left[2][8];
    uint8_t corner[2];
    int32_t dc[CHROMA_BLOCKS];
};

/* The plane, row and column of the lane's four samples, when the mode is chosen. */
struct chroma_word {
    uint32_t plane, row, half;
};

DEVICE struct chroma_word chroma_word_of(uint32_t lane)
{
    struct chroma_word to = {lane / HALF_LANES, lane / 2 % 8, lane % 2};
    return to;
}

struct chroma_macroblock {
    uint32_t x;
    const struct webp_segment *segment;
    uint32_t source; /* the lane's four samples */
    int dc[2];       /* the DC prediction of U, of V */
    int mode;
};

/* Writes the source and the samples above to shared memory. edge: of lanes 0 to 3 the words of the
 * macroblock above. */
SIMT void place_chroma(struct chroma_shared *shared, const struct mode_row *row,
                       const struct chroma_macroblock *macroblock, uint64_t edge)
{
    uint32_t lane = (uint32_t)lane_index();
    struct chroma_word own = chroma_word_of(lane);
    shared->source[4 * own.plane + own.row / 4 * 2 + own.half][own.row % 4] = macroblock->source;
    if (lane < WEBP_EDGE_WORDS)
        shared->top[lane / 2][lane % 2] = row->y > 0 ? (uint32_t)edge : 0x7F7F7F7F;
    warp_barrier();
}

/* Finds the best mode: the least sum of squared differences, and cost of the mode. */
SIMT void choose_chroma(const struct chroma_shared *shared, const struct mode_row *row,
                        struct chroma_macroblock *macroblock)
{
    struct chroma_word own = chroma_word_of((uint32_t)lane_index());
    bool has_top = row->y > 0, has_left = macroblock->x > 0;
    uint32_t source = macroblock->source, top = shared->top[own.plane][own.half];
    uint32_t left = shared->left[own.plane][own.row];
    uint32_t around = has_left && own.half == 0 ? left : 0;
    if (has_top && own.row == 0)
        around = dot_unsigned(top, 0x01010101, around);
    /* The sum of U in the lower half of a word, that of V in the upper one. */
    uint32_t sums = warp_sum(own.plane ? around << 16 : around);
    UNROLL
    for (int i = 0; i < 2; i++)
        macroblock->dc[i] = (int)dc_of_sum(sums >> 16 * i & 0xFFFF, has_top, has_left, 3);
    uint32_t dc = (uint32_t)macroblock->dc[own.plane] * 0x01010101u;
    uint32_t tm = tm_prediction(top, (int)left - shared->corner[own.plane]);
    uint32_t scores[4] = {warp_sum(add_squares(source, dc, 0)),
                          warp_sum(add_squares(source, tm, 0)),
                          warp_sum(add_squares(source, top, 0)),
                          warp_sum(add_squares(source, left * 0x01010101u, 0))};
    const uint32_t costs[4] = {302 * 120, 984 * 120, 439 * 120, 642 * 120};
    (void)best_mode(scores, costs, &macroblock->mode);
}

/* The lane's pixels: pixel p of a block of each pair. Pair i has the blocks of row i % 2 of U
 * (i < 2) or V. A prediction is the sum of columns[i / 2] and rows[i]. */
struct chroma_predictor {
    int columns[2], rows[4];
};

SIMT struct chroma_predictor chroma_predictor_of(const struct chroma_shared *shared,
                                                 const struct chroma_macroblock *macroblock)
{
    int p = lane_index() % HALF_LANES, x = lane_index() / HALF_LANES * 4 + p % 4;
    int mode = macroblock->mode;
    struct chroma_predictor to;
    UNROLL
    for (int i = 0; i < 2; i++) {
        int top = ((const uint8_t *)shared->top[i])[x], corner = shared->corner[i];
        to.columns[i] = mode == MODE_DC   ? macroblock->dc[i]
                        : mode == MODE_HE ? 0
                                          : top - (mode == MODE_TM ? corner : 0);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        int left = shared->left[i / 2][i % 2 * 4 + p / 4];
        to.rows[i] = mode == MODE_TM || mode == MODE_HE ? left : 0;
    }
    return to;
}

DEVICE int chroma_prediction(const struct chroma_predictor *predictor, int pair)
{
    return clip_sample(predictor->columns[pair / 2] + predictor->rows[pair]);
}

/* Quantises a DC coefficient. Returns half of the error. */
DEVICE int quantise_dc(int *coefficient, const struct webp_quantiser *quantiser)
{
    bool negative = *coefficient < 0;
    int value = negative ? -*coefficient : *coefficient;
    uint32_t level =
        ((uint32_t)value * (uint32_t)quantiser->reciprocal[0] + (uint32_t)quantiser->bias[0]) >>
        QUANTISER_BITS;
    int rounded = (int)level * quantiser->step[0], error = value - rounded;
    *coefficient = negative ? -rounded : rounded;
    return (negative ? -error : error) >> 1;
}

/* Passes the rounding errors of the DC coefficients of a plane to its next blocks. libwebp also
 * adds errors of other macroblocks, but at method 2 these are 0. */
DEVICE void diffuse_errors(int32_t dc[4], const struct webp_quantiser *quantiser)
{
    int error0 = quantise_dc(&dc[0], quantiser);
    dc[1] += (8 * error0) >> 3;
    int error1 = quantise_dc(&dc[1], quantiser);
    dc[2] += (7 * error0) >> 3;
    int error2 = quantise_dc(&dc[2], quantiser);
    dc[3] += (7 * error1 + 8 * error2) >> 3;
    (void)quantise_dc(&dc[3], quantiser);
}

/* The best quality whose errors are diffused. */
#define DIFFUSED_QUALITY_MAX 98

/* Codes the blocks with the chosen mode. quantiser: of the lane. */
SIMT void code_chroma(struct chroma_shared *shared, const struct mode_row *row,
                      const struct lane_quantiser *quantiser,
                      const struct chroma_macroblock *macroblock)
{
    int lane = lane_index(), p = lane % HALF_LANES, half = lane / HALF_LANES, coefficients[4];
    struct chroma_predictor predictor = chroma_predictor_of(shared, macroblock);
    const uint8_t *source = (const uint8_t *)shared->source[half] + p;
    int32_t *dc = shared->dc + half;
    UNROLL
    for (int i = 0; i < 4; i++) {
        coefficients[i] =
            transform(source[32 * i] - chroma_prediction(&predictor, i), &row->factors);
        if (p == 0)
            dc[2 * i] = coefficients[i];
    }
    warp_barrier();
    if (row->image->quality <= DIFFUSED_QUALITY_MAX && lane < 2)
        diffuse_errors(shared->dc + 4 * lane, &macroblock->segment->uv);
    if (lane < 2)
        shared->corner[lane] = ((const uint8_t *)shared->top[lane])[7];
    warp_barrier();
    int16_t *levels = shared->levels + 16 * half + coding_order[coefficient_of(p)];
    int x = 4 * half + p % 4;
    UNROLL
    for (int i = 0; i < 4; i++) {
        int value = dc[2 * i];
        coefficients[i] = p == 0 ? value : coefficients[i];
        levels[32 * i] = (int16_t)quantise(&coefficients[i], quantiser);
        int sample =
            chroma_prediction(&predictor, i) + inverse_transform(coefficients[i], &row->factors);
        if (i % 2 == 1 && p >= 12)
            ((uint8_t *)shared->bottom[i / 2])[x] = (uint8_t)clip_sample(sample);
        if (x == 7)
            shared->left[i / 2][i % 2 * 4 + p / 4] = (uint8_t)clip_sample(sample);
    }
    warp_barrier();
}

/* ---- rows of macroblocks ---- */

/* Publishes the edge for the row below, and writes the results to global memory. */
SIMT void store_chroma(const struct chroma_shared *shared, const struct mode_row *row,
                       const struct chroma_macroblock *macroblock)
{
    int lane = lane_index();
    size_t index = row_start(row) + macroblock->x;
    const struct webp_encode_descriptor *image = row->image;
    if (lane < WEBP_EDGE_WORDS)
        publish_alone(&image->chroma_edges[index * WEBP_EDGE_WORDS + (size_t)lane],
                      WEBP_EDGE_VALID | shared->bottom[lane / 2][lane % 2]);
    /* Lane l has half of the levels of block l % 8. */
    int at = lane % CHROMA_BLOCKS * 16 + lane / CHROMA_BLOCKS % 2 * 8;
    words4 levels = *(const words4 *)(const void *)(shared->levels + at);
    if (lane < CHROMA_BLOCKS * 2)
        *(words4 *)(void *)(image->levels + index * WEBP_LEVELS + WEBP_LEVELS_CHROMA + at) = levels;
    uint32_t nonzero = warp_ballot((levels.x | levels.y | levels.z | levels.w) != 0);
    nonzero = (nonzero | nonzero >> CHROMA_BLOCKS) & 255;
    if (lane == 0)
        image->chroma[index] = (webp_chroma)(nonzero | (uint32_t)macroblock->mode << 8);
}

SIMT void start_chroma_row(struct chroma_shared *shared, uint32_t y)
{
    int lane = lane_index();
    warp_barrier();
    if (lane < 16)
        shared->left[lane / 8][lane % 8] = 129;
    if (lane < 2)
        shared->corner[lane] = y > 0 ? 129 : 127;
    warp_barrier();
}

/* Returns the word of the edge above that the lane needs for macroblock x, or NULL. */
SIMT const uint64_t *chroma_edge_above(const struct mode_row *row, uint32_t x)
{
    uint32_t lane = (uint32_t)lane_index(), columns = row->image->columns;
    if (row->y == 0 || x >= columns || lane >= WEBP_EDGE_WORDS)
        return NULL;
    return row->image->chroma_edges + (row_start(row) - columns + x) * WEBP_EDGE_WORDS + lane;
}

SIMT uint32_t load_chroma(const struct mode_row *row, uint32_t x)
{
    struct chroma_word own = chroma_word_of((uint32_t)lane_index());
    const uint8_t *plane = own.plane ? row->image->v : row->image->u;
    uint32_t stride = 8 * row->image->columns;
    return load_word(plane + (size_t)(8 * row->y + own.row) * stride + 8 * x + 4 * own.half);
}

SIMT void code_chroma_row(struct chroma_shared *shared, const struct mode_row *row)
{
    struct chroma_macroblock macroblock = {0, NULL, 0, {0, 0}, MODE_DC};
    struct lane_quantiser quantiser = {0, 0, 0};
    uint32_t columns = row->image->columns, next;
    uint32_t source = load_chroma(row, 0), alpha = row->image->alphas[row_start(row)];
    const uint64_t *at = chroma_edge_above(row, 0);
    uint64_t edge = at ? poll_alone(at) : 0;
    start_chroma_row(shared, row->y);
    NO_UNROLL
    for (; macroblock.x < columns; macroblock.x++) {
        const struct webp_segment *segment = segment_of(row, alpha);
        if (segment != macroblock.segment)
            quantiser = lane_quantiser_of(&segment->uv, coefficient_of(lane_index()), 0);
        macroblock.segment = segment;
        macroblock.source = source;
        edge = await_edge(at, edge);
        place_chroma(shared, row, &macroblock, edge);
        /* These loads take as long as the coding. */
        next = macroblock.x + 1 < columns ? macroblock.x + 1 : 0;
        source = load_chroma(row, next);
        alpha = row->image->alphas[row_start(row) + next];
        at = chroma_edge_above(row, macroblock.x + 1);
        edge = at ? poll_alone(at) : 0;
        choose_chroma(shared, row, &macroblock);
        code_chroma(shared, row, &quantiser, &macroblock);
        store_chroma(shared, row, &macroblock);
        warp_barrier();
    }
}
