/*
 * strip_levels.h - the levels of a block, as avif_choose_levels makes them, by a warp.
 *
 * Each part of the block has the same number of lanes. A lane has some coefficients that follow
 * each other in the order of the scan, so that the sums of cut_tail are those of lanes.
 */
#pragma once

#include "gpu/avif/device/strip.h"
#include "gpu/avif/device/warp.h"
#include "gpu/avif/transform/levels.h"

enum { TAIL_COSTS = 18 };

/* The costs of levels. */
struct strip_costs {
    /* When the end is chosen: of 0, and then by the highest bit of the level. */
    int64_t tail[TAIL_COSTS];
    int lowered[2][LOWER_CLASSES];
};

/* The costs of luma by its activity; then those of chroma. */
enum { STRIP_CHROMA = ACTIVITIES, STRIP_COSTS };

/* The scans of sizes below 5: positions as lane_positions, and ranks less 1. */
enum { STRIP_SCANS = 16 + 64 + 256 };
struct strip_scans {
    uint8_t positions[STRIP_SCANS], ranks[STRIP_SCANS];
};

SIMT int strip_scan_first(int size)
{
    return size == 2 ? 0 : size == 3 ? 16 : 80;
}

/* By all `threads` threads of a block. */
SIMT void strip_set_scans(const struct avif_common *common, int threads, struct strip_scans *to)
{
    for (int size = 2; size < 5; size++)
        for (int i = thread_index(); i < 1 << 2 * size; i += threads) {
            int at = strip_scan_first(size) + i;
            to->positions[at] = (uint8_t)common->lane_positions[size - 2][i];
            to->ranks[at] = (uint8_t)(common->scans.ranks[size - 2][i] - 1);
        }
}

/* The quantisers of an image in shared memory. */
struct strip_quantiser {
    struct avif_quantiser of;
    struct strip_costs costs[STRIP_COSTS];
};

/* By all `threads` threads of a block. luma: by activity */
SIMT void strip_set_quantiser(const struct avif_quantiser *from, const struct avif_quantiser *luma,
                              int threads, struct strip_quantiser *to)
{
    if (thread_index() == 0)
        to->of = *from;
    for (int i = thread_index(); i < STRIP_COSTS * TAIL_COSTS; i += threads) {
        int own = i / TAIL_COSTS, level = i % TAIL_COSTS;
        to->costs[own].tail[level] = avif_cost_of(
            own < ACTIVITIES ? &luma[own] : from,
            level == 0 ? COST_TAIL_ZERO : COST_TAIL_LEVEL + COST_TAIL_DOUBLING * (level - 1));
    }
    for (int i = thread_index(); i < STRIP_COSTS * 2 * LOWER_CLASSES; i += threads) {
        int own = i / (2 * LOWER_CLASSES), is_ac = i / LOWER_CLASSES % 2, group = i % LOWER_CLASSES;
        to->costs[own].lowered[is_ac][group] =
            (own < ACTIVITIES ? &luma[own] : from)->lowered[is_ac][group];
    }
}

/* As the cost of kernels.h, without what 64 x 64 loses, of work->coefficients of one part. */
SIMT int64_t strip_cost(const struct strip_work *work, const struct avif_quantiser *quantiser,
                        int size)
{
    int bits = avif_min(size, 5), sixteenths = 0;
    const int step = quantiser->steps[1], rounding = quantiser->cost_rounding;
    const uint32_t inverse = quantiser->inverse[1];
    int64_t error = 0;
    warp_barrier();
    for (int i = lane_index(); i < 1 << 2 * bits; i += WARP_LANES) {
        int value = avif_abs(work->coefficients[i + (i >> bits)]);
        int level = avif_level_of((uint32_t)value, (uint32_t)rounding, inverse);
        int rest = value - level * step;
        error += (int64_t)rest * rest;
        if (level > 0)
            sixteenths += COST_LEVEL + COST_DOUBLING * highest_bit((uint32_t)level);
    }
    sixteenths = COST_BLOCK + warp_total(sixteenths, WARP_LANES);
    return warp_total_64(error) + avif_cost_of(quantiser, sixteenths);
}

/* What is known of the levels of a part. */
struct strip_levels {
    int end, rows; /* rows of levels from here on are 0 */
    struct avif_level_context context;
};

/* How a part is shared by its lanes. */
struct strip_share {
    int lanes, lane, part, count, each; /* lanes of a part, coefficients of it and of a lane */
};

SIMT struct strip_share strip_share_of(int size, int parts)
{
    struct strip_share to;
    int coded = avif_coded_side(size);
    to.lanes = WARP_LANES / parts;
    to.lane = lane_index() & (to.lanes - 1);
    to.part = lane_index() / to.lanes;
    to.count = coded * coded;
    to.each = to.count / to.lanes;
    return to;
}

/* Where strips find the order of coefficients. */
struct strip_order {
    const struct avif_common *common;
    const struct strip_scans *scans;
};

/* Coefficient i of the lane, in the order of the scan. */
SIMT int strip_position(const struct strip_order *order, const struct strip_share *share, int size,
                        int i)
{
    int half = share->each / 2, at = i * WARP_LANES + share->lane;
    if (share->lanes != WARP_LANES && size != 2)
        at = (i & (half - 1)) * WARP_LANES + 2 * share->lane + (i >= half);
    return size < 5 ? order->scans->positions[strip_scan_first(size) + at]
                    : order->common->lane_positions[3][at];
}

/* The most of, and the sum over, the lanes of a part. value >= 0 */
SIMT int strip_most(const struct strip_share *share, int value)
{
    if (share->lanes == WARP_LANES)
        return (int)warp_max((uint32_t)value);
    int first = (int)warp_max(share->part == 0 ? (uint32_t)value : 0);
    int second = (int)warp_max(share->part == 1 ? (uint32_t)value : 0);
    return share->part == 0 ? first : second;
}

SIMT int strip_sum(const struct strip_share *share, int value)
{
    if (share->lanes == WARP_LANES)
        return (int)warp_sum((uint32_t)value);
    int first = (int)warp_sum(share->part == 0 ? (uint32_t)value : 0);
    int second = (int)warp_sum(share->part == 1 ? (uint32_t)value : 0);
    return share->part == 0 ? first : second;
}

SIMT int64_t strip_read_64(int64_t value, int lane)
{
    uint32_t low = warp_read((uint32_t)value, lane);
    return (int64_t)((uint64_t)warp_read((uint32_t)(value >> 32), lane) << 32 | low);
}

/* Sets work->most_3 from the levels before any is lowered. Returns whether a level is not 0. */
SIMT bool strip_classes(struct strip_work *work, const struct strip_quantiser *quantiser,
                        const struct strip_share *share, int size, int parts)
{
    int bits = avif_min(size, 5), side = 1 << bits, stride = side + LEVEL_GAP;
    const int32_t *coefficients =
        work->coefficients + share->part * side * (side + COEFFICIENT_GAP);
    uint8_t *most_3 = (uint8_t *)work->most_3 + share->part * stride * stride;
    uint32_t any = 0, inverse = quantiser->of.inverse[1],
             rounding = (uint32_t)quantiser->of.rounding[1];
    for (int i = lane_index(); i < parts * stride * stride / 4; i += WARP_LANES)
        work->most_3[i] = 0;
    warp_barrier();
    for (int i = share->lane; i < share->count; i += share->lanes) {
        uint32_t value = (uint32_t)avif_abs(coefficients[i + (i >> bits)]);
        int level = i > 0 ? avif_level_of(value, rounding, inverse)
                          : avif_level_of(value, (uint32_t)quantiser->of.rounding[0],
                                          quantiser->of.inverse[0]);
        any |= (uint32_t)level;
        if (level > 0)
            most_3[i + (i >> bits) * LEVEL_GAP] = (uint8_t)avif_min(level, 3);
    }
    return warp_ballot(any != 0) != 0;
}

/* The level of a coefficient, lowered unless its frequency is low. most_3: at its place */
SIMT int strip_lower(const struct strip_quantiser *quantiser, const struct strip_costs *costs,
                     const uint8_t *most_3, int stride, int value, bool is_ac, bool is_low)
{
    int level = avif_level_of((uint32_t)value, (uint32_t)quantiser->of.rounding[is_ac],
                              quantiser->of.inverse[is_ac]);
    if (level == 0 || is_low)
        return level;
    int error = value - level * quantiser->of.steps[is_ac];
    int sum = most_3[1] + most_3[2] + most_3[stride] + most_3[stride + 1] + most_3[2 * stride];
    return level - (error < costs->lowered[is_ac][avif_lower_class(level, sum)]);
}

/* Replaces coefficients by their lowered levels, and returns how many are kept: as cut_tail of
 * choose_levels.c, which compares the sums of gains from each coefficient to the last one. */
SIMT int strip_cut(struct strip_work *work, const struct strip_order *order,
                   const struct strip_quantiser *quantiser, const struct strip_costs *costs,
                   const struct strip_share *share, int size)
{
    int bits = avif_min(size, 5), side = 1 << bits, stride = side + LEVEL_GAP;
    int32_t *coefficients = work->coefficients + share->part * side * (side + COEFFICIENT_GAP);
    const uint8_t *most_3 = (const uint8_t *)work->most_3 + share->part * stride * stride;
    int best = share->each; /* of the lane: where the sum is least; the highest of equal ones */
    int64_t sum = 0, least = INT64_MAX;
    uint32_t nonzero = 0;
    NO_UNROLL
    for (int i = share->each - 1; i >= 0; i--) {
        int at = strip_position(order, share, size, i), row = at >> bits;
        int coefficient = coefficients[at + row], value = avif_abs(coefficient);
        bool is_low = avif_is_low(size, row, at - (row << bits));
        int level = strip_lower(quantiser, costs, most_3 + at + row * LEVEL_GAP, stride, value,
                                at > 0, is_low);
        if (level > 0) {
            int error = value - level * quantiser->of.steps[at > 0];
            sum += (int64_t)value * value - (int64_t)error * error;
            nonzero |= 1u << i;
        }
        sum -= costs->tail[1 + highest_bit((uint32_t)level)];
        coefficients[at + row] = coefficient < 0 ? -level : level;
        if (sum < least) {
            least = sum;
            best = i;
        }
    }
    /* Join the coefficients of each lane with those of the lanes after it. */
    best += share->lane * share->each;
    NO_UNROLL
    for (int by = 1; by < share->lanes; by *= 2) {
        int from = (lane_index() + by) & (WARP_LANES - 1);
        int64_t other_sum = strip_read_64(sum, from), other = strip_read_64(least, from);
        int at = (int)warp_read((uint32_t)best, from);
        bool is_better = other <= least + other_sum;
        least = is_better ? other : least + other_sum;
        best = is_better ? at : best;
        sum += other_sum;
    }
    best = (int)warp_read((uint32_t)(least < 0 ? best : share->count), lane_index() - share->lane);
    /* Down to the last level that is not 0. */
    int before = best - share->lane * share->each, last = 0;
    if (before < share->each)
        nonzero &= before <= 0 ? 0 : (1u << before) - 1;
    if (nonzero != 0)
        last = share->lane * share->each + highest_bit(nonzero) + 1;
    last = strip_most(share, last);
    warp_barrier();
    return last;
}

/* Quantises work->coefficients. Writes the levels of the lane's part in raster order, and the
 * decoder's coefficients to work->lines. If no part has a level, nothing is written. own: the
 * index of the part's costs */
SIMT struct strip_levels strip_quantise(struct strip_work *work, const struct strip_order *order,
                                        const struct strip_quantiser *quantiser, int own, int size,
                                        int parts, int16_t *levels)
{
    struct strip_share share = strip_share_of(size, parts);
    struct strip_levels to = {0, 0, {0, 0}};
    warp_barrier();
    if (!strip_classes(work, quantiser, &share, size, parts))
        return to;
    warp_barrier();
    to.end = strip_cut(work, order, quantiser, &quantiser->costs[own], &share, size);
    if (warp_ballot(to.end > 0) == 0)
        return to;
    const uint16_t *large_ranks = order->common->scans.ranks[3];
    const uint8_t *ranks = order->scans->ranks + strip_scan_first(size);
    int bits = avif_min(size, 5), side = 1 << bits, last = 0, sum = 0;
    int stride = (1 << size) + SAMPLE_GAP;
    const int32_t *kept = work->coefficients + share.part * side * (side + COEFFICIENT_GAP);
    int16_t *lines = work->lines + share.part * (1 << size) * stride;
    for (int i = share.lane; i < share.count; i += share.lanes) {
        int row = i >> bits, rank = size < 5 ? ranks[i] : large_ranks[i] - 1;
        int level = rank >= to.end ? 0 : kept[i + row];
        levels[i] = (int16_t)level;
        lines[row * stride + (i & (side - 1))] =
            (int16_t)avif_dequantise(level, quantiser->of.steps[i > 0], size);
        sum += avif_abs(level);
        last = level != 0 ? row + 1 : last;
    }
    to.rows = strip_most(&share, last);
    to.context.sum = (uint8_t)avif_min(strip_sum(&share, sum), 63);
    int dc = to.end > 0 ? kept[0] : 0;
    to.context.dc_sign = dc == 0 ? 0 : dc < 0 ? 1 : 2;
    return to;
}
