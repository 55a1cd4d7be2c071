/*
 * quant.h - the quantisation tables of a JPEG by its quality, and the factors with which the
 * encoder divides by them. For the host and for devices.
 */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define QUANT_DEVICE static __host__ __device__ inline
#else
#define QUANT_DEVICE static inline __attribute__((unused))
#endif

/* Returns the quantiser that libjpeg's jpeg_set_quality sets for a baseline file. table: 0 of Y, 1
 * of Cb and Cr; at: in natural order; quality: 1 to 100. */
QUANT_DEVICE uint32_t quant_of(int table, int at, int quality)
{
    /* ITU-T T.81, tables K.1 and K.2, which have the quality 50. */
    static const uint8_t half[2][64] = {
        {16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,
         14, 13, 16, 24, 40,  57,  69,  56,  14, 17, 22, 29, 51,  87,  80,  62,
         18, 22, 37, 56, 68,  109, 103, 77,  24, 35, 55, 64, 81,  104, 113, 92,
         49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99},
        {17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99,
         99, 99, 47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
         99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99}};
    int percent = quality < 50 ? 5000 / quality : 200 - 2 * quality;
    int value = (half[table][at] * percent + 50) / 100;
    return value < 1 ? 1 : value > UINT8_MAX ? UINT8_MAX : (uint32_t)value;
}

/* Returns the factor with which the encoder quantises: it multiplies a coefficient by 1 / divisor
 * and rounds to the nearest integer. Floats round halves to even, but libjpeg rounds halves away
 * from zero. The factor is therefore increased a little. The results then equal libjpeg's for all
 * divisors and all coefficients; tests/cuda/test_jpeg_encode.c compares each one. */
QUANT_DEVICE float quant_reciprocal(uint32_t quantiser)
{
    double divisor = 8.0 * quantiser;
    return (float)(1.0 / divisor * (1.0 + 1.0 / (1 << 18)));
}
