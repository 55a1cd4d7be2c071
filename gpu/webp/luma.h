/*
 * luma.h - codes the luma of a row of macroblocks.
 *
 * A warp finds the best 16 x 16 mode of a macroblock, then tries 4 x 4 modes, and codes the
 * macroblock with what costs less.
 */
#pragma once

#include "gpu/webp/luma_4.h"

/* Publishes the edge for the row below, and writes the results to global memory. */
SIMT void store_luma(const struct luma_shared *shared, const struct mode_row *row,
                     const struct luma_macroblock *macroblock)
{
    uint32_t lane = (uint32_t)lane_index(), p = lane % HALF_LANES, half = lane / HALF_LANES;
    size_t index = row_start(row) + macroblock->x;
    const struct webp_encode_descriptor *image = row->image;
    if (lane < WEBP_EDGE_WORDS) {
        uint64_t mode = shared->modes[MODES_AT(lane, 3)];
        publish_alone(&image->luma_edges[index * WEBP_EDGE_WORDS + lane],
                      WEBP_EDGE_VALID | mode << 32 |
                          word_at(shared->frame, FRAME_AT(4 * lane, 15)));
    }
    /* Block p in raster order: the lanes of both halves have 8 of its levels. */
    words4 levels =
        *(const words4 *)(const void *)&shared->levels[BLOCK_AT(p % 4, p / 4)][8 * half];
    int16_t *to = image->levels + index * WEBP_LEVELS;
    *(words4 *)(void *)(to + WEBP_LEVELS_LUMA + 16 * p + 8 * half) = levels;
    uint32_t nonzero = warp_ballot((levels.x | levels.y | levels.z | levels.w) != 0);
    nonzero = (nonzero | nonzero >> 16) & 0xFFFF;
    if (macroblock->is_16x16 && lane < 16)
        to[lane] = shared->dc_levels[lane];
    if (macroblock->is_16x16 && macroblock->has_dc_levels)
        nonzero |= 1 << 24;
    uint32_t mode = (uint32_t)shared->modes[MODES_AT(p % 4, p / 4)] << p % 8 * 4;
    uint32_t low = warp_or(p < 8 ? mode : 0), high = warp_or(p < 8 ? 0 : mode);
    if (lane == 0) {
        words4 luma = {low, high, nonzero, macroblock->is_16x16};
        *(words4 *)(void *)&image->luma[index] = luma;
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
            shared->left[left_at(lane - 1)] = sample;
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
        shared->frame[FRAME_AT(-1, lane)] = shared->left[left_at(lane)] = 129;
    if (lane == 16)
        shared->frame[FRAME_AT(-1, -1)] = y > 0 ? 129 : 127;
    /* Of the modes within the macroblock, the first steps read some before they are written. The
     * memory may have any values. */
    if (lane < MODES_STRIDE * MODES_STRIDE)
        shared->modes[lane] = MODE_DC;
    warp_barrier();
}

/* Returns the word of the edge above that the lane needs for macroblock x, or NULL. */
SIMT const uint64_t *luma_edge_above(const struct mode_row *row, uint32_t x)
{
    uint32_t lane = (uint32_t)lane_index(), columns = row->image->columns;
    if (row->y == 0 || x >= columns || lane >= WEBP_EDGE_WORDS)
        return NULL;
    return row->image->luma_edges + (row_start(row) - columns + x) * WEBP_EDGE_WORDS + lane;
}

SIMT words2 load_source(const struct mode_row *row, uint32_t x)
{
    uint32_t lane = (uint32_t)lane_index(), stride = 16 * row->image->columns;
    return load_words2(row->image->y + (size_t)(16 * row->y + lane / 2) * stride + 16 * x +
                       lane % 2 * 8);
}

SIMT void code_luma_row(struct mode_shared *of_block, uint32_t warp, const struct mode_row *row)
{
    uint8_t *memory = (uint8_t *)of_block;
    struct luma_shared *shared = (struct luma_shared *)(void *)of_block->warps[warp];
    struct luma_lane lane = luma_lane_of(warp * (uint32_t)sizeof of_block->warps[0]);
    struct luma_macroblock macroblock = {0};
    uint32_t columns = row->image->columns, next;
    words2 source = load_source(row, 0);
    uint32_t alpha = row->image->alphas[row_start(row)];
    macroblock.next_at = luma_edge_above(row, 0);
    macroblock.next_edge = macroblock.next_at ? poll_alone(macroblock.next_at) : 0;
    start_luma_row(shared, row->y);
    NO_UNROLL
    for (; macroblock.x < columns; macroblock.x++) {
        const struct webp_segment *segment = segment_of(row, alpha);
        if (segment != macroblock.segment) {
            int k = coefficient_of(lane_index());
            macroblock.segment = segment;
            macroblock.penalty_4x4 = segment->penalty_4x4;
            lane.quantiser = lane_quantiser_of(&segment->y1, k, segment->sharpen[k]);
        }
        macroblock.source[0] = source.x;
        macroblock.source[1] = source.y;
        uint64_t edge = await_edge(macroblock.next_at, macroblock.next_edge);
        place_around(shared, row, &macroblock, edge);
        /* These loads take as long as the choice of the modes. */
        next = macroblock.x + 1 < columns ? macroblock.x + 1 : 0;
        source = load_source(row, next);
        alpha = row->image->alphas[row_start(row) + next];
        macroblock.next_at = luma_edge_above(row, macroblock.x + 1);
        macroblock.next_edge = macroblock.next_at ? poll_alone(macroblock.next_at) : 0;
        choose_16x16(shared, row, &macroblock);
        if (!macroblock.is_16x16)
            try_4x4(shared, memory, row, &lane, &macroblock);
        if (macroblock.is_16x16)
            code_16x16(shared, row, &lane.quantiser, &macroblock);
        store_luma(shared, row, &macroblock);
        move_right(shared);
    }
}
