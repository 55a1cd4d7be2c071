/*
 * luma.cu - inverse DCT of the first component, one thread per block of 8 x 8 samples.
 *
 * The arithmetic is that of jidctint.c of libjpeg-turbo. The SIMD functions of libjpeg-turbo
 * compute some sums in 16 bits and limit samples where the C function wraps around. An image with
 * values for which that makes a difference is declined.
 *
 * Reading coefficients and writing samples, 3 bytes per sample, is the bound.
 */
#include "gpu/jpeg/luma.h"

#define LUMA_THREADS 128

#define CONST_BITS 13
#define PASS1_BITS 2
/* The sum of two such values fits 16 bits. */
#define VALUE_MAX 16383
/* The table of limits takes 10 bits: jdmaster.c, prepare_range_limit_table. */
#define SAMPLE_MAX 511

/* Position of each coefficient, in natural order, in the zigzag order. */
CONSTANT uint8_t zigzag_of[JPEG_BLOCK] = {
    0,  1,  5,  6,  14, 15, 27, 28, 2,  4,  7,  13, 16, 26, 29, 42, 3,  8,  12, 17, 25, 30,
    41, 43, 9,  11, 18, 24, 31, 40, 44, 53, 10, 19, 23, 32, 39, 45, 52, 54, 20, 22, 33, 38,
    46, 51, 55, 60, 21, 34, 37, 47, 50, 56, 59, 61, 35, 36, 48, 49, 57, 58, 62, 63};

/* One pass of jidctint.c over 8 values, in place. */
DEVICE void transform(int *v, int stride, int shift)
{
    int z1 = (v[2 * stride] + v[6 * stride]) * 4433;
    int even2 = z1 - v[6 * stride] * 15137, even3 = z1 + v[2 * stride] * 6270;
    int even0 = (v[0] + v[4 * stride]) * (1 << CONST_BITS);
    int even1 = (v[0] - v[4 * stride]) * (1 << CONST_BITS);
    int sum0 = even0 + even3, sum3 = even0 - even3, sum1 = even1 + even2, sum2 = even1 - even2;
    int odd0 = v[7 * stride], odd1 = v[5 * stride], odd2 = v[3 * stride], odd3 = v[stride];
    int z2 = (odd1 + odd2) * -20995, z3 = odd0 + odd2, z4 = odd1 + odd3;
    int z5 = (z3 + z4) * 9633, round = 1 << (shift - 1);
    z1 = (odd0 + odd3) * -7373;
    z3 = z3 * -16069 + z5;
    z4 = z4 * -3196 + z5;
    odd0 = odd0 * 2446 + z1 + z3;
    odd1 = odd1 * 16819 + z2 + z4;
    odd2 = odd2 * 25172 + z2 + z3;
    odd3 = odd3 * 12299 + z1 + z4;
    v[0] = (sum0 + odd3 + round) >> shift;
    v[7 * stride] = (sum0 - odd3 + round) >> shift;
    v[stride] = (sum1 + odd2 + round) >> shift;
    v[6 * stride] = (sum1 - odd2 + round) >> shift;
    v[2 * stride] = (sum2 + odd1 + round) >> shift;
    v[5 * stride] = (sum2 - odd1 + round) >> shift;
    v[3 * stride] = (sum3 + odd0 + round) >> shift;
    v[4 * stride] = (sum3 - odd0 + round) >> shift;
}

/* Whether all values are from -max - 1 to max; max + 1 is a power of 2. */
DEVICE bool all_within(const int *values, int max)
{
    int excess = 0;
    UNROLL
    for (int i = 0; i < JPEG_BLOCK; i++)
        excess |= values[i] ^ values[i] >> 31;
    return excess <= max;
}

DEVICE uint32_t limit_sample(int value)
{
    value += 128;
    return (uint32_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

SIMT void store_samples(const struct jpeg_luma *image, uint32_t block, const int *values)
{
    uint32_t x = block % image->plane.across, y = block / image->plane.across;
    uint8_t *to = image->samples + (size_t)y * 8 * image->pitch + (size_t)x * 8;
    UNROLL
    for (int row = 0; row < 8; row++) {
        const int *v = values + 8 * row;
        words2 eight;
        eight.x = limit_sample(v[0]) | limit_sample(v[1]) << 8 | limit_sample(v[2]) << 16 |
                  limit_sample(v[3]) << 24;
        eight.y = limit_sample(v[4]) | limit_sample(v[5]) << 8 | limit_sample(v[6]) << 16 |
                  limit_sample(v[7]) << 24;
        *(words2 *)(to + (size_t)row * image->pitch) = eight;
    }
}

struct jpeg_luma_args {
    const struct jpeg_luma *images;
};

/* Grid: groups of blocks of the largest image, images. */
KERNEL(store_luma, LUMA_THREADS, 4, struct jpeg_luma_args)
{
    const struct jpeg_luma *image = args.images + block_row();
    uint32_t block = (uint32_t)(block_index() * LUMA_THREADS + thread_index());
    int values[JPEG_BLOCK];
    if (*image->verdict != 0 || block >= image->plane.across * image->plane.down)
        return;
    const int16_t *from = image->plane.values + jpeg_coefficient(block, 0);
    UNROLL
    for (int i = 0; i < JPEG_BLOCK; i++)
        values[i] = from[zigzag_of[i] * JPEG_GROUP_BLOCKS] * image->quant[i];
    bool within = all_within(values, VALUE_MAX);
    if (within) {
        UNROLL
        for (int i = 0; i < 8; i++)
            transform(values + i, 8, CONST_BITS - PASS1_BITS);
        within = all_within(values, VALUE_MAX);
    }
    if (within) {
        UNROLL
        for (int i = 0; i < 8; i++)
            transform(values + 8 * i, 1, CONST_BITS + PASS1_BITS + 3);
        within = all_within(values, SAMPLE_MAX);
    }
    if (within)
        store_samples(image, block, values);
    else
        atomic_max(image->verdict, JPEG_SAMPLES_RANGE);
}

int jpeg_store_luma(const struct jpeg_luma *images, uint32_t count, uint32_t groups_max,
                    struct CUstream_st *stream)
{
    const uint32_t per_block = LUMA_THREADS / JPEG_GROUP_BLOCKS;
    struct jpeg_luma_args args;
    args.images = images;
    return LAUNCH(store_luma, LUMA_THREADS,
                  dim3((groups_max + per_block - 1) / per_block, count), 0, stream, args);
}
