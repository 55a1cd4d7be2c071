/*
 * group.h - transforms of 8 x 8 in 8 lanes, without shared memory. A lane has a row or column.
 */
#pragma once

#include "gpu/avif/device/warp.h"
#include "gpu/avif/predict/predict.h"
#include "gpu/avif/transform/transform.h"

SIMT int group_lane(void)
{
    return lane_index() % GROUP_LANES;
}

/* Loads 8 samples of a row. */
SIMT void load_samples(const uint8_t *at, int to[8])
{
    words2 words = load_words2(at);
    UNROLL
    for (int i = 0; i < 4; i++) {
        to[i] = (int)(words.x >> 8 * i & 255);
        to[i + 4] = (int)(words.y >> 8 * i & 255);
    }
}

SIMT void store_samples(uint8_t *at, const int from[8])
{
    words2 words = {0, 0};
    UNROLL
    for (int i = 0; i < 4; i++) {
        words.x |= (uint32_t)from[i] << 8 * i;
        words.y |= (uint32_t)from[i + 4] << 8 * i;
    }
    *(words2 *)(void *)at = words;
}

/* Exchanges rows and columns. */
SIMT void group_transpose(int v[8])
{
    UNROLL
    for (int mask = 1; mask < 8; mask *= 2) {
        bool upper = (lane_index() & mask) != 0;
        UNROLL
        for (int i = 0; i < 8; i++)
            if (!(i & mask)) {
                int other = (int)warp_read_xor((uint32_t)(upper ? v[i] : v[i | mask]), mask);
                if (upper)
                    v[i] = other;
                else
                    v[i | mask] = other;
            }
    }
}

/* The DCT of the forward matrix of size 3: the sums of products, plus `round`, shifted right. */
DEVICE void avif_forward_8(int v[8], int round, int shift)
{
    int s0 = v[0] + v[7], s1 = v[1] + v[6], s2 = v[2] + v[5], s3 = v[3] + v[4];
    int d0 = v[0] - v[7], d1 = v[1] - v[6], d2 = v[2] - v[5], d3 = v[3] - v[4];
    int a = s0 + s3, b = s1 + s2, c = s0 - s3, e = s1 - s2;
    v[0] = (2896 * (a + b) + round) >> shift;
    v[4] = (2896 * (a - b) + round) >> shift;
    v[2] = (3784 * c + 1567 * e + round) >> shift;
    v[6] = (1567 * c - 3784 * e + round) >> shift;
    v[1] = (4017 * d0 + 3406 * d1 + 2276 * d2 + 799 * d3 + round) >> shift;
    v[3] = (3406 * d0 - 799 * d1 - 4017 * d2 - 2276 * d3 + round) >> shift;
    v[5] = (2276 * d0 - 4017 * d1 + 799 * d2 + 3406 * d3 + round) >> shift;
    v[7] = (799 * d0 - 2276 * d1 + 3406 * d2 - 4017 * d3 + round) >> shift;
}

/* Transforms differences, a row per lane, to coefficients, a row per lane. */
SIMT void group_transform(int v[8])
{
    group_transpose(v);
    avif_forward_8(v, 1 << 9, 10);
    group_transpose(v);
    avif_forward_8(v, 1 << 12, 13);
}

/* Adds the inverse transform of coefficients, a row per lane, to samples of a row. */
SIMT void group_inverse(const int decoded[8], int samples[8])
{
    int v[8], line[8];
    avif_inverse_dct(decoded, line, 3);
    UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = (line[i] + 1) >> 1;
    group_transpose(v);
    avif_inverse_dct(v, line, 3);
    UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = (line[i] + 8) >> 4;
    group_transpose(v);
    UNROLL
    for (int i = 0; i < 8; i++)
        samples[i] = avif_clip(samples[i] + v[i]);
}

SIMT int64_t group_total_64(int64_t value)
{
    for (int mask = 1; mask < GROUP_LANES; mask *= 2)
        value += warp_read_xor_64(value, mask);
    return value;
}

/* As the cost of kernels.h, of a row of coefficients per lane. */
SIMT int64_t group_cost(const int coefficients[8], const struct avif_quantiser *quantiser)
{
    int sixteenths = 0;
    uint32_t error = 0; /* 8 squares of less than a step */
    UNROLL
    for (int i = 0; i < 8; i++) {
        int value = avif_abs(coefficients[i]);
        int level = avif_level_of((uint32_t)value, (uint32_t)quantiser->cost_rounding,
                                  quantiser->inverse[1]);
        int rest = value - level * quantiser->steps[1];
        error += (uint32_t)(rest * rest);
        if (level > 0)
            sixteenths += COST_LEVEL + COST_DOUBLING * highest_bit((uint32_t)level);
    }
    sixteenths = COST_BLOCK + warp_total(sixteenths, GROUP_LANES);
    return group_total_64(error) + avif_cost_of(quantiser, sixteenths);
}

/* Quantises a row of coefficients per lane, and lowers levels. */
SIMT void group_quantise(const int coefficients[8], const struct avif_quantiser *quantiser,
                         int levels[8])
{
    int lane = group_lane(), most_3[10], below[9], next[8];
    UNROLL
    for (int i = 0; i < 8; i++) {
        bool is_ac = lane > 0 || i > 0;
        levels[i] = avif_level_of((uint32_t)avif_abs(coefficients[i]),
                                  (uint32_t)quantiser->rounding[is_ac], quantiser->inverse[is_ac]);
        most_3[i] = avif_min(levels[i], 3);
    }
    most_3[8] = most_3[9] = below[8] = 0;
    UNROLL
    for (int i = 0; i < 8; i++) {
        below[i] = (int)warp_read_down((uint32_t)most_3[i], 1);
        next[i] = (int)warp_read_down((uint32_t)most_3[i], 2);
        below[i] = lane < 7 ? below[i] : 0;
        next[i] = lane < 6 ? next[i] : 0;
    }
    UNROLL
    for (int i = 0; i < 8; i++) {
        bool is_ac = lane > 0 || i > 0;
        int error = avif_abs(coefficients[i]) - levels[i] * quantiser->steps[is_ac];
        int sum = most_3[i + 1] + most_3[i + 2] + below[i] + below[i + 1] + next[i];
        int group = avif_lower_class(levels[i], sum);
        levels[i] -=
            levels[i] > 0 && !avif_is_low(3, lane, i) && error < quantiser->lowered[is_ac][group];
    }
}

/* A block's absolute coefficients and levels in raster order, and what cut_tail of levels.c makes
 * of the levels. */
struct group_work {
    int values[64], levels[64];
};

/* Returns how many levels are kept, in the order of the scan. Lane l has those of 8 l to 8 l + 7.
 * scan: as lane_positions */
SIMT int group_cut_tail(const struct group_work *work, const uint16_t *scan,
                        const struct avif_quantiser *quantiser)
{
    int lane = group_lane(), best = 8 * lane + 8, last = 0;
    int64_t sum = 0, least = INT64_MAX, above;
    for (int i = 7; i >= 0; i--) {
        int at = scan[i % 2 * WARP_LANES + 4 * lane + i / 2];
        sum +=
            avif_tail_gain(quantiser, work->values[at], work->levels[at], quantiser->steps[at > 0]);
        if (sum < least) {
            least = sum;
            best = 8 * lane + i;
        }
    }
    /* Add the sums of the lanes after this one. */
    above = sum;
    for (int by = 1; by < GROUP_LANES; by *= 2) {
        uint32_t low = warp_read_down((uint32_t)above, by);
        uint32_t high = warp_read_down((uint32_t)(above >> 32), by);
        if (lane + by < GROUP_LANES)
            above += (int64_t)((uint64_t)high << 32 | low);
    }
    least += above - sum;
    for (int mask = 1; mask < GROUP_LANES; mask *= 2) {
        int64_t other = warp_read_xor_64(least, mask);
        int at = (int)warp_read_xor((uint32_t)best, mask);
        bool is_better = other < least || (other == least && at > best);
        least = is_better ? other : least;
        best = is_better ? at : best;
    }
    best = least < 0 ? best : 64;
    for (int i = 0; i < 8; i++)
        if (8 * lane + i < best && work->levels[scan[i % 2 * WARP_LANES + 4 * lane + i / 2]] != 0)
            last = 8 * lane + i + 1;
    for (int mask = 1; mask < GROUP_LANES; mask *= 2)
        last = avif_max(last, (int)warp_read_xor((uint32_t)last, mask));
    return last;
}
