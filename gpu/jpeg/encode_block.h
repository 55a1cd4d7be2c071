/*
 * encode_block.h - forward DCT, quantisation and Huffman coding of one 8 x 8 block by one thread.
 *
 * The coefficients of a block are a column of an array in shared memory: coefficient k of column c
 * is at k * threads + c, so that the threads of a warp access different banks. Later, the words of
 * the block's Huffman-coded bits replace its coefficients.
 */
#pragma once

#include "codecs/jpeg/zigzag.h"
#include "gpu/jpeg/encode_impl.h"
#include "gpu/simt/simt.h"

/* The float 1.5 * 2^23. If a number below 2^22 is added to it, the low bits of the sum are the
 * number, rounded to the nearest integer. Additions can thus convert between integers and floats,
 * and round. */
#define ROUNDER 12582912.0f
#define ROUNDER_BITS 0x4B400000u
/* What the level shift of 128 subtracts from the sum of a block's samples. */
#define DC_SHIFT (128 * DCT_AREA)

CONSTANT uint8_t zigzag_of[DCT_AREA] = JPEG_ZIGZAG_OF_NATURAL;

/* Which AC coefficients of a block are not zero. Bit 31 - k of `high` is for position k in zigzag
 * order, below 32, and bit 63 - k of `low` for position k from 32 on. */
struct nonzeros {
    uint32_t high, low;
};

/* ---- DCT ----
 *
 * The slow-integer DCT of libjpeg (jfdctint.c). All sums before a rounding shift are exact in 32
 * bits, so they can be regrouped into multiply-adds without a change of the result. */

/* The constants of jfdctint.c, times 2^13. */
enum {
    FIX_0_298631336 = 2446, FIX_0_390180644 = 3196, FIX_0_541196100 = 4433,
    FIX_0_765366865 = 6270, FIX_0_899976223 = 7373, FIX_1_175875602 = 9633,
    FIX_1_501321110 = 12299, FIX_1_847759065 = 15137, FIX_1_961570560 = 16069,
    FIX_2_053119869 = 16819, FIX_2_562915447 = 20995, FIX_3_072711026 = 25172
};

/* Outputs 2 and 6. t12, t13: named as in jfdctint.c. */
DEVICE void dct_even(int t12, int t13, int shift, int out[DCT_SIDE])
{
    int half = 1 << (shift - 1);
    out[2] = (t13 * (FIX_0_541196100 + FIX_0_765366865) + (t12 * FIX_0_541196100 + half)) >> shift;
    out[6] = (t13 * FIX_0_541196100 + (t12 * (FIX_0_541196100 - FIX_1_847759065) + half)) >> shift;
}

/* Outputs 1, 3, 5 and 7. */
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

/* Transforms a row of 8 samples, given as two words. libjpeg scales all outputs by 4; here outputs
 * 0 and 4 are not scaled, because they are exact without it. */
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

/* Transforms a column of the rows' outputs. exact: it is column 0 or 4, which is not scaled. */
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

/* Returns ROUNDER plus the rounded quotient of a coefficient and its divisor. */
DEVICE float quantise(int coefficient, float reciprocal)
{
    float value = float_of_bits((uint32_t)coefficient + ROUNDER_BITS) - ROUNDER;
    return multiply_add(value, reciprocal, ROUNDER);
}

DEVICE int quantised(float quotient)
{
    return (int)(bits_of_float(quotient) - ROUNDER_BITS);
}

/* quotient: from quantise. Returns 1 unless the quotient is zero. */
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

/* Three floats collect 21 flags of nonzero coefficients each. That takes one multiply-add per flag,
 * which runs on other units than the integer arithmetic. */
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
 * with the stride `threads`, in the low 16 bits of each word. reciprocals: of the component, as in
 * encode_descriptor. *dc: receives coefficient 0. */
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

/* Joins codes to words. The low `count` bits of `bits` are not written yet; between two codes they
 * are fewer than 32. */
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

/* Returns the Huffman code of a value, followed by the bits of the value; *length: of both. codes:
 * those for the number of zeros before the value. */
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

/* The number of zeros before the first nonzero coefficient; any number above 15 if there is
 * none. */
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

/* Encodes the block whose coefficients are in column `column` of `words`. difference: of its DC
 * coefficient. codes: the tables of its component. The words of the result replace the
 * coefficients; the unused bits of the last word are 0. Returns the number of bits. A coefficient
 * takes at most 26 bits, so a word never replaces a coefficient that is still to be read. */
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
        /* If there are more than 15 zeros, the value at the end of the run is a zero, too. Its code
         * is that of the symbol 0xF0, which means 16 zeros. */
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

/* The quantised DC coefficient of a block whose samples have this sum. */
DEVICE int dc_of_sum(int sum, const float *reciprocals)
{
    return quantised(quantise(sum - DC_SHIFT, reciprocals[0]));
}
