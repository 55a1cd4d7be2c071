/*
 * transform.h - the transforms and the quantiser of 4 x 4 blocks, with the roundings of libwebp.
 *
 * Half a warp has a block. Lane p of the half has pixel p before the forward transform (rows from
 * top to bottom), and after it the coefficient coefficient_of(p).
 */
#pragma once

#include "gpu/simt/simt.h"
#include "gpu/webp/encode_impl.h"

#define HALF_LANES 16
/* Levels have 11 bits. */
#define LEVEL_MAX      2047
#define QUANTISER_BITS 17

DEVICE int clip_sample(int value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

/* ---- in one thread ---- */

/* Returns the sum of the differences of the bytes of source and prediction, each times the signed
 * byte of `factors`. negated: the factors times -1 */
DEVICE int weigh(uint32_t source, uint32_t prediction, uint32_t factors, uint32_t negated)
{
    return dot_bytes(source, factors, dot_bytes(prediction, negated, 0));
}

/* Transforms the residuals of a block to coefficients. The words have its rows. */
DEVICE void transform_block(const uint32_t source[4], const uint32_t prediction[4],
                            int coefficients[16])
{
    int rows[16];
    UNROLL
    for (int i = 0; i < 4; i++) {
        uint32_t from = source[i], less = prediction[i];
        int odd0 = weigh(from, less, 0xFF000001, 0x010000FF);
        int odd1 = weigh(from, less, 0x00FF0100, 0x0001FF00);
        rows[4 * i] = 8 * weigh(from, less, 0x01010101, 0xFFFFFFFF);
        rows[4 * i + 1] = (odd1 * 2217 + odd0 * 5352 + 1812) >> 9;
        rows[4 * i + 2] = 8 * weigh(from, less, 0x01FFFF01, 0xFF0101FF);
        rows[4 * i + 3] = (odd0 * 2217 - odd1 * 5352 + 937) >> 9;
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        int sum0 = rows[i] + rows[12 + i], sum1 = rows[4 + i] + rows[8 + i];
        int odd0 = rows[i] - rows[12 + i], odd1 = rows[4 + i] - rows[8 + i];
        coefficients[i] = (sum0 + sum1 + 7) >> 4;
        coefficients[4 + i] = ((odd1 * 2217 + odd0 * 5352 + 12000) >> 16) + (odd0 != 0);
        coefficients[8 + i] = (sum0 - sum1 + 7) >> 4;
        coefficients[12 + i] = (odd0 * 2217 - odd1 * 5352 + 51000) >> 16;
    }
}

/* ---- in half a warp ---- */

/* Coefficients of a row or column are in the order 0, 2, 1, 3. */
DEVICE int coefficient_of(int lane)
{
    int row = lane / 4 % 4, column = lane % 4;
    row = row == 1 || row == 2 ? 3 - row : row;
    column = column == 1 || column == 2 ? 3 - column : column;
    return 4 * row + column;
}

/* The factors of a lane. Each step computes a * own + b * other + round; conditions on the lane
 * instead of the factors would make lanes diverge. */
struct lane_factors {
    int sign_x, sign_y;          /* of the lane's own value in the first, even and odd sums */
    int row_a, row_b, row_round; /* forward */
    int column_a, column_b, column_round;
    uint32_t correction;     /* 1 in the coefficients of row 1, which have one */
    int up_a, up_b, up_sign; /* inverse */
    int across_a, across_b, across_sign, across_round;
};

DEVICE struct lane_factors lane_factors_of(int lane)
{
    int x = lane % 4, y = lane / 4 % 4;
    struct lane_factors to;
    to.sign_x = x < 2 ? 1 : -1;
    to.sign_y = y < 2 ? 1 : -1;
    to.row_a = x == 0 ? 4096 : x == 1 ? -4096 : 2217;
    to.row_b = x < 2 ? 4096 : x == 2 ? 5352 : -5352;
    to.row_round = x < 2 ? 0 : x == 2 ? 1812 : 937;
    to.column_a = y == 0 ? 4096 : y == 1 ? -4096 : 2217;
    to.column_b = y < 2 ? 4096 : y == 2 ? 5352 : -5352;
    to.column_round = y < 2 ? 7 * 4096 : y == 2 ? 12000 : 51000;
    to.correction = y == 2;
    to.up_a = y == 0 ? 65536 : y == 1 ? -65536 : 35468;
    to.up_b = y < 2 ? 65536 : 65536 + 20091;
    to.up_sign = y == 2 ? -1 : 1;
    to.across_a = x == 0 ? 65536 : x == 1 ? -65536 : 35468;
    to.across_b = x < 2 ? 65536 : 65536 + 20091;
    to.across_sign = x == 2 ? -1 : 1;
    to.across_round = x < 2 ? 4 : 0;
    return to;
}

SIMT int half_read_xor(int value, int mask)
{
    return (int)warp_read_xor((uint32_t)value, mask);
}

/* Returns the coefficient of the lane. */
SIMT int transform(int residual, const struct lane_factors *lane)
{
    int value = half_read_xor(residual, 3) + residual * lane->sign_x;
    int other = half_read_xor(value, 1);
    value = (value * lane->row_a + other * lane->row_b + lane->row_round) >> 9;
    value = half_read_xor(value, 12) + value * lane->sign_y;
    other = half_read_xor(value, 4);
    value = (value * lane->column_a + other * lane->column_b + lane->column_round) >> 16;
    uint32_t nonzero = (uint32_t)other < lane->correction ? (uint32_t)other : lane->correction;
    return value + (int)nonzero;
}

/* Returns what is added to the prediction of the lane's pixel. */
SIMT int inverse_transform(int coefficient, const struct lane_factors *lane)
{
    int other = half_read_xor(coefficient, 4);
    int value = ((coefficient * lane->up_a) >> 16) + ((other * lane->up_b) >> 16) * lane->up_sign;
    value = half_read_xor(value, 12) + value * lane->sign_y;
    other = half_read_xor(value, 1);
    value = ((value * lane->across_a) >> 16) +
            ((other * lane->across_b) >> 16) * lane->across_sign + lane->across_round;
    return (half_read_xor(value, 3) + value * lane->sign_x) >> 3;
}

/* A step of the Walsh-Hadamard transform: the sum of the lane's value and that of lane ^ mask, or
 * their difference. The steps 2 and 1 transform four values in the order of the lanes to elements
 * in the order of hadamard_of; 1 and 2 do the opposite. */
SIMT int hadamard_step(int value, int mask)
{
    return half_read_xor(value, mask) + (lane_index() & mask ? -value : value);
}

/* The element of the transform of four values in this lane. */
DEVICE int hadamard_of(int lane)
{
    return lane == 0 ? 0 : lane == 1 ? 3 : lane - 1;
}

/* ---- quantiser ---- */

/* bias: what is added to larger coefficients (webp_segment.sharpen) included. */
struct lane_quantiser {
    int step;
    uint32_t reciprocal, bias;
};

DEVICE struct lane_quantiser lane_quantiser_of(const struct webp_quantiser *quantiser,
                                               int coefficient, int sharpen)
{
    int i = coefficient > 0;
    struct lane_quantiser to = {quantiser->step[i], (uint32_t)quantiser->reciprocal[i], 0};
    to.bias = (uint32_t)quantiser->bias[i] + (uint32_t)sharpen * to.reciprocal;
    return to;
}

/* Returns the level of the coefficient, and sets the coefficient to the decoder's value. */
DEVICE int quantise(int *coefficient, const struct lane_quantiser *lane)
{
    bool negative = *coefficient < 0;
    uint32_t value = (uint32_t)(negative ? -*coefficient : *coefficient);
    int level = (int)((value * lane->reciprocal + lane->bias) >> QUANTISER_BITS);
    level = level < LEVEL_MAX ? level : LEVEL_MAX;
    level = negative ? -level : level;
    *coefficient = level * lane->step;
    return level;
}
