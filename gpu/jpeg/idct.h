/*
 * idct.h - libjpeg-turbo's inverse DCTs: jidctint.c (8 x 8) and jidctred.c (4 x 4, 2 x 2, 1 x 1).
 *
 * libjpeg-turbo has these functions in C and with SIMD instructions. For extreme inputs, the two
 * give different samples: the SIMD functions keep their inputs and the results of the first pass in
 * 16 bits, and limit samples to 0 to 255; the C functions have no such bounds, but take samples
 * modulo 1024 first. The functions of this file report inputs for which the two may differ, and
 * otherwise give the samples of both. The following shows that no such input is missed. x: the 64
 * dequantised coefficients; y: the results of the first pass; v: a sample before it is limited,
 * without the centre of 128.
 *
 * 1. |x| <= DECODE_RANGE_MAX = 1700 is a condition, which the caller checks.
 * 2. 8 x 8: v is a sum of 64 products of x and the values of an orthonormal basis. The squares of
 *    these values add up to 1, so |v| <= sqrt(64) * 1700 = 13,600, plus less than 8 for rounding.
 *    The functions here compute 2^18 v modulo 2^32, so v modulo 2^14. They report v outside of -512
 *    to 511, for which the remainder modulo 1024 matters. Since 13,608 + 512 < 2^14, they report
 *    each such v. If all 8 samples of a row pass, the sum of their squares is at most 8 * 512^2.
 *    The sum of the squares of the y from which they are computed is 128 times that, because the
 *    second pass is orthogonal but for a factor of sqrt(1/128). So the y of a row have a length of
 *    at most 16,384, plus less than 100 for rounding and for the constants' 13 bits. Thus neither a
 *    y nor the sum or difference of two, at most sqrt(2) * 16,484, exceeds 16 bits.
 * 3. 4 x 4: |y| <= 4 * 1700 * (1 + 1.307 + 2.449) + 1 < 2^15, where 1.307 and 2.449 are half the
 *    sums of the constants of the even and the odd part. |v| <= |y| * 4.756 / 32 < 4,810, and v is
 *    known modulo 2^13.
 * 4. 2 x 2: |y| <= 1700 * (4 + 6.469) + 1 < 2^15, |v| <= |y| * (1 / 32 + 6.469 / 128) < 1,457, and
 *    v is known modulo 2^12.
 * 5. 1 x 1: |v| <= 1700 / 8 + 1.
 *
 * All words are unsigned, because sums may wrap.
 */
#pragma once

#include "gpu/simt/simt.h"

/* FIX(x) of libjpeg: x * 2^13, rounded. */
#define IDCT_CONST_BITS 13
#define IDCT_PASS1_BITS 2
#define IDCT_CENTRE 128
/* v must be at least -2^IDCT_SAMPLE_BITS and less than 2^IDCT_SAMPLE_BITS: see above. */
#define IDCT_SAMPLE_BITS 9

DEVICE uint32_t shift_signed(uint32_t word, int by) { return (uint32_t)((int32_t)word >> by); }

/* Adds the centre of 128 to four samples, limits them to bytes, and packs them: the first into the
 * low byte. */
DEVICE uint32_t pack_samples(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
#if defined(__CUDA_ARCH__)
    uint32_t upper, all;
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(upper) : "r"(d), "r"(c), "r"(0));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(b), "r"(a), "r"(upper));
    return all ^ 0x80808080u;
#else
    uint32_t words[4] = {a, b, c, d}, all = 0;
    for (int i = 0; i < 4; i++) {
        int32_t sample = (int32_t)words[i] + IDCT_CENTRE;
        all |= (uint32_t)(sample < 0 ? 0 : sample > 255 ? 255 : sample) << 8 * i;
    }
    return all;
#endif
}

/* One pass of jidctint.c over 8 values, in place. The results are scaled: the caller shifts them.
 * half: 1/2 in the scale of the results, for rounding. */
DEVICE void idct8_pass(uint32_t *x, int stride, uint32_t half)
{
    uint32_t z1 = (x[2 * stride] + x[6 * stride]) * 4433u;
    uint32_t even2 = z1 - x[6 * stride] * 15137u, even3 = z1 + x[2 * stride] * 6270u;
    uint32_t even0 = (x[0] + x[4 * stride]) * 8192u + half;
    uint32_t even1 = (x[0] - x[4 * stride]) * 8192u + half;
    uint32_t t10 = even0 + even3, t13 = even0 - even3, t11 = even1 + even2, t12 = even1 - even2;
    uint32_t a0 = x[7 * stride], a1 = x[5 * stride], a2 = x[3 * stride], a3 = x[stride];
    uint32_t z3 = a0 + a2, z4 = a1 + a3, z5 = (z3 + z4) * 9633u;
    z1 = (a0 + a3) * 7373u;
    uint32_t z2 = (a1 + a2) * 20995u;
    z3 = z5 - z3 * 16069u;
    z4 = z5 - z4 * 3196u;
    a0 = a0 * 2446u + z3 - z1;
    a1 = a1 * 16819u + z4 - z2;
    a2 = a2 * 25172u + z3 - z2;
    a3 = a3 * 12299u + z4 - z1;
    x[0] = t10 + a3;
    x[7 * stride] = t10 - a3;
    x[stride] = t11 + a2;
    x[6 * stride] = t11 - a2;
    x[2 * stride] = t12 + a1;
    x[5 * stride] = t12 - a1;
    x[3 * stride] = t13 + a0;
    x[4 * stride] = t13 - a0;
}

/* x: 64 dequantised coefficients in natural order; overwritten. rows: 2 words per row of samples.
 * Returns whether all samples are in the range in which the functions agree. */
DEVICE bool idct8(uint32_t *x, uint32_t *rows)
{
    enum {
        shift1 = IDCT_CONST_BITS - IDCT_PASS1_BITS,
        shift2 = IDCT_CONST_BITS + IDCT_PASS1_BITS + 3,
        range = shift2 + IDCT_SAMPLE_BITS
    };
    uint32_t outside = 0;
    UNROLL
    for (int column = 0; column < 8; column++) {
        idct8_pass(x + column, 8, 1u << (shift1 - 1));
        UNROLL
        for (int i = 0; i < 8; i++)
            x[column + 8 * i] = shift_signed(x[column + 8 * i], shift1);
    }
    UNROLL
    for (int row = 0; row < 8; row++) {
        uint32_t *v = x + 8 * row;
        idct8_pass(v, 1, 1u << (shift2 - 1));
        UNROLL
        for (int i = 0; i < 8; i++) {
            outside |= v[i] + (1u << range);
            v[i] = shift_signed(v[i], shift2);
        }
        rows[2 * row] = pack_samples(v[0], v[1], v[2], v[3]);
        rows[2 * row + 1] = pack_samples(v[4], v[5], v[6], v[7]);
    }
    return outside >> (range + 1) == 0;
}

/* One pass of jpeg_idct_4x4: makes 4 results from all values except value 4. */
DEVICE void idct4_pass(const uint32_t *x, int stride, uint32_t half, uint32_t *to)
{
    uint32_t even = x[0] * 16384u + half;
    uint32_t other = x[2 * stride] * 15137u - x[6 * stride] * 6270u;
    uint32_t z1 = x[7 * stride], z2 = x[5 * stride], z3 = x[3 * stride], z4 = x[stride];
    uint32_t odd0 = z2 * 11893u - z1 * 1730u - z3 * 17799u + z4 * 8697u;
    uint32_t odd2 = z3 * 7373u - z1 * 4176u - z2 * 4926u + z4 * 20995u;
    to[0] = even + other + odd2;
    to[3] = even + other - odd2;
    to[1] = even - other + odd0;
    to[2] = even - other - odd0;
}

/* As idct8, but gives 4 x 4 samples. rows: a word per row of samples. */
DEVICE bool idct4(const uint32_t *x, uint32_t *rows)
{
    enum {
        shift1 = IDCT_CONST_BITS - IDCT_PASS1_BITS + 1,
        shift2 = IDCT_CONST_BITS + IDCT_PASS1_BITS + 3 + 1,
        range = shift2 + IDCT_SAMPLE_BITS
    };
    uint32_t y[4][8], outside = 0;
    UNROLL
    for (int column = 0; column < 8; column++) {
        uint32_t results[4] = {0, 0, 0, 0};
        if (column != 4)
            idct4_pass(x + column, 8, 1u << (shift1 - 1), results);
        UNROLL
        for (int i = 0; i < 4; i++)
            y[i][column] = shift_signed(results[i], shift1);
    }
    UNROLL
    for (int row = 0; row < 4; row++) {
        uint32_t v[4];
        idct4_pass(y[row], 1, 1u << (shift2 - 1), v);
        UNROLL
        for (int i = 0; i < 4; i++) {
            outside |= v[i] + (1u << range);
            v[i] = shift_signed(v[i], shift2);
        }
        rows[row] = pack_samples(v[0], v[1], v[2], v[3]);
    }
    return outside >> (range + 1) == 0;
}

/* One pass of jpeg_idct_2x2: makes 2 results from value 0 and the odd values. */
DEVICE void idct2_pass(const uint32_t *x, int stride, uint32_t half, uint32_t *to)
{
    uint32_t even = x[0] * 32768u + half;
    uint32_t odd = x[5 * stride] * 6967u - x[7 * stride] * 5906u - x[3 * stride] * 10426u +
                   x[stride] * 29692u;
    to[0] = even + odd;
    to[1] = even - odd;
}

/* As idct8, but gives 2 x 2 samples. rows: a word per row of samples, in its lower half. */
DEVICE bool idct2(const uint32_t *x, uint32_t *rows)
{
    enum {
        shift1 = IDCT_CONST_BITS - IDCT_PASS1_BITS + 2,
        shift2 = IDCT_CONST_BITS + IDCT_PASS1_BITS + 3 + 2,
        range = shift2 + IDCT_SAMPLE_BITS
    };
    uint32_t y[2][8], outside = 0;
    UNROLL
    for (int column = 0; column < 8; column++) {
        uint32_t results[2] = {0, 0};
        if (column == 0 || column % 2 == 1)
            idct2_pass(x + column, 8, 1u << (shift1 - 1), results);
        y[0][column] = shift_signed(results[0], shift1);
        y[1][column] = shift_signed(results[1], shift1);
    }
    UNROLL
    for (int row = 0; row < 2; row++) {
        uint32_t v[2];
        idct2_pass(y[row], 1, 1u << (shift2 - 1), v);
        outside |= (v[0] + (1u << range)) | (v[1] + (1u << range));
        rows[row] = pack_samples(shift_signed(v[0], shift2), shift_signed(v[1], shift2), 0, 0);
    }
    return outside >> (range + 1) == 0;
}

/* Gives the only sample of a block at scale 1/8. dc: the dequantised DC coefficient. */
DEVICE uint32_t idct1(uint32_t dc) { return pack_samples(shift_signed(dc + 4, 3), 0, 0, 0) & 255; }
