/*
 * transform.h - inverse transforms of a row or column (AV1 7.13.2).
 *
 * Rotations clamp their results to 16 bits, as additions do in the specification. Streams in which
 * this makes a difference are not valid, but the encoder needs a result, and vectors of 16 bits
 * give the same one.
 */
#pragma once

#include "gpu/avif/frame/encoder.h"

/* 4096 times the cosine of 128ths of a half turn. */
CONSTANT int16_t avif_cosines[65] = {
    4096, 4095, 4091, 4085, 4076, 4065, 4052, 4036, 4017, 3996, 3973, 3948, 3920,
    3889, 3857, 3822, 3784, 3745, 3703, 3659, 3612, 3564, 3513, 3461, 3406, 3349,
    3290, 3229, 3166, 3102, 3035, 2967, 2896, 2824, 2751, 2675, 2598, 2520, 2440,
    2359, 2276, 2191, 2106, 2019, 1931, 1842, 1751, 1660, 1567, 1474, 1380, 1285,
    1189, 1092, 995,  897,  799,  700,  601,  501,  401,  301,  201,  101,  0};

LOOKUP int avif_cos(int angle)
{
    angle &= 255;
    return angle <= 64    ? avif_cosines[angle]
           : angle <= 128 ? -avif_cosines[128 - angle]
           : angle <= 192 ? -avif_cosines[angle - 128]
                          : avif_cosines[256 - angle];
}

LOOKUP int avif_sin(int angle)
{
    return avif_cos(angle - 64);
}

/* The lowest `bits` bits of x in reverse order; at most 6. Without a loop, because compilers do not
 * unroll all loops that have another one in them. */
DEVICE int avif_reverse(int bits, int x)
{
    int of_6 =
        (x & 1) << 5 | (x & 2) << 3 | (x & 4) << 1 | (x & 8) >> 1 | (x & 16) >> 3 | (x & 32) >> 5;
    return of_6 >> (6 - bits);
}

DEVICE int avif_clamp16(int value)
{
    return value < INT16_MIN ? INT16_MIN : value > INT16_MAX ? INT16_MAX : value;
}

LOOKUP void avif_rotate(int *t, int a, int b, int angle)
{
    int x = t[a] * avif_cos(angle) - t[b] * avif_sin(angle);
    int y = t[a] * avif_sin(angle) + t[b] * avif_cos(angle);
    t[a] = avif_clamp16((x + 2048) >> 12);
    t[b] = avif_clamp16((y + 2048) >> 12);
}

DEVICE void avif_add(int *t, int a, int b)
{
    int x = t[a], y = t[b];
    t[a] = avif_clamp16(x + y);
    t[b] = avif_clamp16(x - y);
}

#define NETWORK(name)                  avif_inverse_##name
#define NETWORK_INLINE                 LOOKUP
#define NETWORK_TYPE                   int
#define NETWORK_ROTATE(t, a, b, angle) avif_rotate(t, a, b, angle)
#define NETWORK_ADD(t, a, b)           avif_add(t, a, b)
#define NETWORK_NEGATE(x)              avif_clamp16(-(x))
#include "gpu/avif/transform/transform_network.inc"

DEVICE void avif_inverse_adst_4(const int *from, int *to)
{
    int sum = from[0] - from[2] + from[3];
    int s0 = 1321 * from[0] + 3803 * from[2] + 2482 * from[3];
    int s1 = 2482 * from[0] - 1321 * from[2] - 3803 * from[3];
    int s2 = 3344 * sum, s3 = 3344 * from[1];
    to[0] = avif_clamp16((s0 + s3 + 2048) >> 12);
    to[1] = avif_clamp16((s1 + s3 + 2048) >> 12);
    to[2] = avif_clamp16((s2 + 2048) >> 12);
    to[3] = avif_clamp16((s0 + s1 - s3 + 2048) >> 12);
}

DEVICE bool avif_adst_columns(int type)
{
    return type == ADST_DCT || type == ADST_ADST;
}

DEVICE bool avif_adst_rows(int type)
{
    return type == DCT_ADST || type == ADST_ADST;
}

/* Right shift with rounding between the transforms of rows and columns. */
DEVICE int avif_row_shift(int size)
{
    return size == 2 ? 0 : size == 3 ? 1 : 2;
}

/* One sample of the inverse identity transform (IDTX), before the final shift. */
DEVICE int avif_inverse_identity(int coefficient, int size)
{
    int factor = size == 2 ? 5793 : size == 3 ? 2 << 12 : 11586, shift = avif_row_shift(size);
    int across = (coefficient * factor + 2048) >> 12;
    across = avif_clamp16((across + (1 << shift >> 1)) >> shift);
    return (across * factor + 2048) >> 12;
}

/* The default type of a prediction mode, which chroma blocks always have (Mode_To_Txfm). */
DEVICE int avif_mode_type(int mode)
{
    switch (mode) {
    case V_PRED:
    case D113_PRED:
    case D67_PRED:
    case SMOOTH_V_PRED:
        return ADST_DCT;
    case H_PRED:
    case D157_PRED:
    case D203_PRED:
    case SMOOTH_H_PRED:
        return DCT_ADST;
    case D135_PRED:
    case SMOOTH_PRED:
    case PAETH_PRED:
        return ADST_ADST;
    default:
        return DCT_DCT;
    }
}
