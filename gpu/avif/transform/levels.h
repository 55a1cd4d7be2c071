/*
 * levels.h - the quantiser: levels of coefficients, their costs, and which levels to lower.
 */
#pragma once

#include "gpu/avif/transform/scans.h"

/* Costs in 1/16 bit, about. */
enum {
    /* In estimates: of a transform block, of a level that is not 0, and for each doubling of it. */
    COST_BLOCK = 40,
    COST_LEVEL = 52,
    COST_DOUBLING = 28,
    /* Of a level when the end of the levels is chosen. */
    COST_TAIL_LEVEL = 16 + 26,
    COST_TAIL_DOUBLING = 30,
    COST_TAIL_ZERO = 4
};

/* value + rounding < 2^18, so that this is the quotient, rounded down. */
DEVICE int avif_level_of(uint32_t value, uint32_t rounding, uint32_t inverse)
{
    return (int)multiply_high(value + rounding, inverse);
}

DEVICE int avif_abs(int x)
{
    return x < 0 ? -x : x;
}

/* The sum of the levels after a coefficient, each at most 3, that the context of it has. */
DEVICE int avif_level_sum(const int16_t *levels, int side, int row, int column)
{
    int sum = 0;
    const int16_t *at = levels + row * side + column;
    if (column + 1 < side)
        sum += avif_min(avif_abs(at[1]), 3);
    if (column + 2 < side)
        sum += avif_min(avif_abs(at[2]), 3);
    if (row + 1 < side) {
        sum += avif_min(avif_abs(at[side]), 3);
        if (column + 1 < side)
            sum += avif_min(avif_abs(at[side + 1]), 3);
    }
    if (row + 2 < side)
        sum += avif_min(avif_abs(at[2 * side]), 3);
    return sum;
}

/* The class of a level that is not 0. sum: of the levels after it */
DEVICE int avif_lower_class(int level, int sum)
{
    return level > 2 ? LOWER_MORE : level == 2 ? LOWER_TWO : avif_min(sum, 3);
}

/* Whether a frequency is low: below a quarter of the highest one, as the sum of both directions. */
DEVICE bool avif_is_low(int size, int row, int column)
{
    return row + column < 1 << size >> 2;
}

/* The change of the cost if a level is coded and not set to 0, with the sign changed. */
DEVICE int64_t avif_tail_gain(const struct avif_quantiser *quantiser, int value, int level,
                              int step)
{
    if (level == 0)
        return -avif_cost_of(quantiser, COST_TAIL_ZERO);
    int64_t error = value - (int64_t)level * step;
    return (int64_t)value * value - error * error -
           avif_cost_of(quantiser,
                        COST_TAIL_LEVEL + COST_TAIL_DOUBLING * highest_bit((uint32_t)level));
}

/* The decoder's coefficient (AV1 7.12.3). */
DEVICE int avif_dequantise(int level, int step, int size)
{
    int shift = size == 6 ? 2 : size == 5 ? 1 : 0;
    int value = (int)(((uint32_t)avif_abs(level) * (uint32_t)step & 0xFFFFFF) >> shift);
    value = level < 0 ? -value : value;
    return value < INT16_MIN ? INT16_MIN : value > INT16_MAX ? INT16_MAX : value;
}

/* The context that the levels of a transform are for others. */
DEVICE struct avif_level_context avif_context_of(const int16_t *levels, int size, int end)
{
    struct avif_level_context context = {0, 0};
    int count = avif_coded_side(size) * avif_coded_side(size), sum = 0;
    if (end == 0)
        return context;
    for (int i = 0; i < count; i++)
        sum += avif_abs(levels[i]);
    context.sum = (uint8_t)avif_min(sum, 63);
    context.dc_sign = levels[0] == 0 ? 0 : levels[0] < 0 ? 1 : 2;
    return context;
}
