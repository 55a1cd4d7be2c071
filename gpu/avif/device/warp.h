/*
 * warp.h - sums over the lanes of a warp, and SATDs.
 *
 * All lanes of a warp call these functions together.
 */
#pragma once

#include "gpu/avif/transform/levels.h"

/* Groups of lanes that have a block of 8 x 8 each. */
enum { GROUP_LANES = 8, GROUPS = WARP_LANES / GROUP_LANES };

SIMT int warp_total(int value, int lanes)
{
    for (int mask = 1; mask < lanes; mask *= 2)
        value += (int)warp_read_xor((uint32_t)value, mask);
    return value;
}

SIMT int64_t warp_read_xor_64(int64_t value, int mask)
{
    uint32_t low = warp_read_xor((uint32_t)value, mask);
    uint32_t high = warp_read_xor((uint32_t)(value >> 32), mask);
    return (int64_t)((uint64_t)high << 32 | low);
}

SIMT int64_t warp_total_64(int64_t value)
{
    for (int mask = 1; mask < WARP_LANES; mask *= 2)
        value += warp_read_xor_64(value, mask);
    return value;
}

/* The sum of the absolute Hadamard coefficients of 8 x 8 differences. Each of 8 lanes has a row of
 * them, and all 8 get the sum. A word holds two values, the upper one times 65536: adding or
 * subtracting words does so with both. The last step is left out, because |a + b| + |a - b| is
 * twice the larger one of |a| and |b|. */
SIMT int warp_hadamard(const int d[8])
{
    int p[4], sum = 0;
    UNROLL
    for (int i = 0; i < 4; i++)
        p[i] = d[i] + d[i + 4] * 65536;
    int a = p[0] + p[1], b = p[0] - p[1], c = p[2] + p[3], e = p[2] - p[3];
    p[0] = a + c;
    p[1] = b + e;
    p[2] = a - c;
    p[3] = b - e;
    UNROLL
    for (int mask = 1; mask < GROUP_LANES; mask *= 2)
        UNROLL
    for (int i = 0; i < 4; i++) {
        int other = (int)warp_read_xor((uint32_t)p[i], mask);
        p[i] = lane_index() & mask ? other - p[i] : other + p[i];
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        int low = (int16_t)p[i], high = (p[i] - low) >> 16;
        sum += avif_max(avif_abs(low), avif_abs(high));
    }
    return 2 * warp_total(sum, GROUP_LANES);
}
