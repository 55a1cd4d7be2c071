/*
 * encode_block.h - forward DCT, quantisation and Huffman coding of one 8 x 8 block by one thread.
 *
 * The coefficients of a block are a column of an array in shared memory: coefficient k of the block
 * of column c is at k * threads + c, so that the threads of a warp access different banks. The
 * words of the block's entropy-coded bits replace them.
 */
#pragma once

#include "codecs/jpeg/zigzag.h"
#include "gpu/jpeg/encode_impl.h"
#include "gpu/jpeg/simt.h"

/* The float 1.5 * 2^23. The sum of it and an integer below 2^22 has the integer in its low bits, so
 * that additions convert between integers and floats, and round to the nearest integer. */
#define ROUNDER 12582912.0f
#define ROUNDER_BITS 0x4B400000u
/* The sum of the samples for the level shift of 128. */
#define DC_SHIFT (128 * DCT_AREA)

CONSTANT uint8_t zigzag_of[DCT_AREA] = JPEG_ZIGZAG_OF_NATURAL;

/* The AC coefficients that are not zero: bit 31 - k of `high` for position k in the zigzag order,
 * bit 63 - k of `low` from position 32. */
struct nonzeros {
    uint32_t high, low;
};

/* ---- DCT ----
 *
 * The slow-integer DCT of libjpeg (jfdctint.c). Its sums before each descaling are exact in 32
 * bits, so that they can be regrouped into multiply-adds without a change of the result. */

/* The constants of jfdctint.c, times 2^13. */
enum {
    FIX_0_298631336 = 2446, FIX_0_390180644 = 3196, FIX_0_541196100 = 4433,
    FIX_0_765366865 = 6270, FIX_0_899976223 = 7373, FIX_1_175875602 = 9633,
    FIX_1_501321110 = 12299, FIX_1_847759065 = 15137, FIX_1_961570560 = 16069,
    FIX_2_053119869 = 16819, FIX_2_562915447 = 20995, FIX_3_072711026 = 25172
};

/* Outputs 2 and 6, from the differences of the even part. */
DEVICE void dct_even(int t12, int t13, int shift, int out[DCT_SIDE])
{
    int half = 1 << (shift - 1);
    out[2] = (t13 * (FIX_0_541196100 + FIX_0_765366865) + (t12 * FIX_0_541196100 + half)) >> shift;
    out[6] = (t13 * FIX_0_541196100 + (t12 * (FIX_0_541196100 - FIX_1_847759065) + half)) >> shift;
}

DEVICE void dct_odd(int t4, int t5, int t6, int t7, int shift, int out[DCT_SIDE])
{
    int half = 1 << (shift - 1);
    int z3 = t4 + t6, z4 = t5 + t7;
    int y3 = z3 * (FIX_1_175875602 - FIX_1_961570560) + (z4 * FIX_1_175875602 + half);
    int y4 = z3 * FIX_1_175875602 + (z4 * (FIX_1_175875602 - FIX_0_390180644) + half);
    out[7] = (t4 * (FIX_0_298631336 - FIX_0_899976223) + (t7 * -FIX_0_899976223 + y3)) >> shift;
    out[5] = (t5 * (FIX_2_053119869 - FIX_2_562915447) + (t6 * -FIX_2_562915447 + y4)) >> shift;
    out[3] = (t6 * (FIX_3_072711026 - FIX_2_562915447) + (t5 * -FIX_2_562915447 + y3)) >> shift;
    out[1] = (t7 * (FIX_1_501321110 - FIX_0_899976223) + (t4 * -FIX_0_899976223 + y4)) >> shift;
}

/* A row of 8 samples, as two words. Outputs 0 and 4 lack libjpeg's factor of 4, as exact values
 * need none. */
DEVICE void dct_row(uint32_t left, uint32_t right, int out[DCT_SIDE])
{
    /* Each byte of a mask is the factor, 1, 0 or -1, of one sample. */
#define SUM(of_left, of_right) dot_bytes(right, of_right, dot_bytes(left, of_left, 0))
    out[0] = SUM(0x01010101u, 0x01010101u);
    out[4] = SUM(0x01FFFF01u, 0x01FFFF01u);
    dct_even(SUM(0x00FF0100u, 0x0001FF00u), SUM(0xFF000001u, 0x010000FFu), 11, out);
    dct_odd(SUM(0x01000000u, 0x000000FFu), SUM(0x00010000u, 0x0000FF00u),
            SUM(0x00000100u, 0x00FF0000u), SUM(0x00000001u, 0xFF000000u), 11, out);
#undef SUM
}

/* A column of the rows' outputs. exact: it is column 0 or 4. */
DEVICE void dct_column(const int in[DCT_SIDE], bool exact, int out[DCT_SIDE])
{
    int t0 = in[0] + in[7], t1 = in[1] + in[6], t2 = in[2] + in[5], t3 = in[3] + in[4];
    int sum03 = t0 + t3, sum12 = t1 + t2;
    int shift = exact ? 13 : 15;
    out[0] = exact ? sum03 + sum12 : (sum03 + sum12 + 2) >> 2;
    out[4] = exact ? sum03 - sum12 : (sum03 - sum12 + 2) >> 2;
    dct_even(t1 - t2, t0 - t3, shift, out);
    dct_odd(in[3] - in[4], in[2] - in[5], in[1] - in[6], in[0] - in[7], shift, out);
}

/* ---- quantisation ---- */

/* ROUNDER plus the rounded quotient of a coefficient and its divisor. */
DEVICE float quantise(int coefficient, float reciprocal)
{
    float value = float_of_bits((uint32_t)coefficient + ROUNDER_BITS) - ROUNDER;
    return multiply_add(value, reciprocal, ROUNDER);
}

DEVICE int quantised(float quotient)
{
    return (int)(bits_of_float(quotient) - ROUNDER_BITS);
}

DEVICE float one_if_nonzero(float quotient)
{
#ifdef __CUDA_ARCH__
    float one;
    asm("set.neu.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(quotient), "f"(ROUNDER));
    return one;
#else
    return quotient != ROUNDER ? 1.0f : 0.0f;
#endif
}

/* Three floats collect 21 flags each: a multiply-add per flag is one instruction, and runs on other
 * units than the integer arithmetic. */
#define FLAGS_PER_FLOAT 21
#define FLAGS_BASE 8388608.0f /* 2^23: the low bits of the float are the flags */

SIMT struct nonzeros nonzeros_of(const float flags[3])
{
    uint32_t bits[3];
    UNROLL
    for (int i = 0; i < 3; i++)
        bits[i] = bits_of_float(flags[i]) & ((1u << FLAGS_PER_FLOAT) - 1);
    struct nonzeros nonzeros = {bits[0] << 10 | bits[1] >> 11, bits[1] << 21 | bits[2]};
    return nonzeros;
}

/* Transforms and quantises 8 rows of 8 samples, two words each. Writes the coefficients to `column`
 * with the stride `threads`; the low 16 bits of each word count. reciprocals: as in a descriptor.
 * *dc: coefficient 0. */
SIMT struct nonzeros transform_block(const uint32_t samples[16], const words4 *reciprocals,
                                     uint32_t *column, int threads, int *dc)
{
    int rows[DCT_AREA];
    float flags[3] = {FLAGS_BASE, FLAGS_BASE, FLAGS_BASE};
    UNROLL
    for (int y = 0; y < DCT_SIDE; y++)
        dct_row(samples[2 * y], samples[2 * y + 1], rows + DCT_SIDE * y);
    UNROLL
    for (int x = 0; x < DCT_SIDE; x++) {
        int in[DCT_SIDE], out[DCT_SIDE];
        words4 upper = reciprocals[2 * x], lower = reciprocals[2 * x + 1];
        const uint32_t factors[DCT_SIDE] = {upper.x, upper.y, upper.z, upper.w,
                                            lower.x, lower.y, lower.z, lower.w};
        UNROLL
        for (int y = 0; y < DCT_SIDE; y++)
            in[y] = rows[DCT_SIDE * y + x];
        dct_column(in, x % 4 == 0, out);
        UNROLL
        for (int y = 0; y < DCT_SIDE; y++) {
            int k = zigzag_of[DCT_SIDE * y + x], flag = k - 1;
            float quotient = quantise(k == 0 ? out[y] - DC_SHIFT : out[y],
                                      float_of_bits(factors[y]));
            column[k * threads] = bits_of_float(quotient);
            if (k == 0)
                *dc = quantised(quotient);
            else
                flags[flag / FLAGS_PER_FLOAT] = multiply_add(
                    one_if_nonzero(quotient),
                    (float)(1 << (FLAGS_PER_FLOAT - 1 - flag % FLAGS_PER_FLOAT)),
                    flags[flag / FLAGS_PER_FLOAT]);
        }
    }
    return nonzeros_of(flags);
}

/* ---- Huffman coding ---- */

/* The bits that are not yet a whole word are the low `count` bits, below 32 between codes. */
struct bit_writer {
    uint64_t bits;
    int count;
    int next; /* index of the next word */
};

DEVICE void put_code(struct bit_writer *writer, uint32_t *words, int threads, uint32_t code,
                     int length)
{
    writer->bits = writer->bits << length | code;
    writer->count += length;
    if (writer->count >= 32) {
        writer->count -= 32;
        words[writer->next] = (uint32_t)(writer->bits >> writer->count);
        writer->next += threads;
    }
}

/* The code of a run of zeros before the value, followed by the bits of the value. *length: of both.
 * codes: of the run. */
DEVICE uint32_t code_of(int value, const uint32_t *codes, int *length)
{
    uint32_t magnitude = (uint32_t)(value < 0 ? -value : value);
    int size = highest_bit(magnitude) + 1;
    uint32_t entry = codes[size];
    /* A negative value is written as the ones' complement of its magnitude. */
    uint32_t extra = (uint32_t)(value + (value >> 31)) & ~(~0u << size);
    *length = (int)(entry & 31);
    return entry >> 5 | extra;
}

/* The number of zeros before the first nonzero, or more than 15. */
DEVICE uint32_t zeros_before(uint32_t nonzeros)
{
#ifdef __CUDA_ARCH__
    uint32_t shift;
    asm("bfind.shiftamt.u32 %0, %1;" : "=r"(shift) : "r"(nonzeros));
    return shift;
#else
    return (uint32_t)leading_zeros(nonzeros);
#endif
}

/* Encodes the block in column `column` of words. difference: of its DC. codes: the tables of its
 * component. Returns the number of bits; the words of the bits are in the block's column, the
 * unused bits of the last one are 0. A word only replaces coefficients that have been read, because
 * a coefficient takes at most 26 bits. */
DEVICE uint32_t encode_block(struct nonzeros nonzeros, int difference, uint32_t *words,
                             int column, int threads, const uint32_t *codes)
{
    int length;
    uint32_t code = code_of(difference, codes + CODES_DC, &length);
    struct bit_writer writer = {code, length, column};
    bool ends_early = (nonzeros.low & 1) == 0;
    uint32_t high = funnel_left(nonzeros.low, nonzeros.high, 1), low = nonzeros.low << 1;
    int at = column;
    while (high | low) {
        /* A run of more than 15 zeros ends at a zero, whose entry, 0xF0, is that of 16 zeros. */
        uint32_t run = zeros_before(high);
        run = run < 15 ? run : 15;
        high = funnel_left(low, high, run + 1);
        low <<= run + 1;
        at += (int)(run + 1) * threads;
        code = code_of((int16_t)words[at], codes + CODES_AC + run * 16, &length);
        put_code(&writer, words, threads, code, length);
    }
    if (ends_early)
        put_code(&writer, words, threads, codes[CODES_AC] >> 5, (int)(codes[CODES_AC] & 31));
    if (writer.count > 0)
        words[writer.next] = (uint32_t)(writer.bits << (32 - writer.count));
    return (uint32_t)(writer.next - column) / (uint32_t)threads * 32 + (uint32_t)writer.count;
}

/* The quantised DC of 8 x 8 samples. */
DEVICE int dc_of_sum(int sum, const float *reciprocals)
{
    return quantised(quantise(sum - DC_SHIFT, reciprocals[0]));
}
