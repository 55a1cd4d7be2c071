/*
 * mma.cuh - products of small matrices of bytes, which the tensor cores compute for a warp.
 *
 * mma_* adds a product of 16 x 32 and 32 x 8 bytes to a sum of 16 x 8 words. In the first matrix,
 * register r of lane 4 g + t has row g + 8 (r % 2), columns 4 t + 16 (r / 2) and the three after
 * it. In the second one, register r has column g, rows 4 t + 16 r and the three after it. In the
 * sum, register r has row g + 8 (r / 2), column 2 t + r % 2. All lanes of a warp must call it.
 */
#pragma once

#include "gpu/ops/launch.cuh"

/* The signs of the bytes: one matrix has pixels, 0 to 255, and the other one weights. */
#define MMA_PIXELS_WEIGHTS "u8.s8"
#define MMA_WEIGHTS_PIXELS "s8.u8"

#if defined(SIMT_HOST)
#define MMA(signs, sum, a0, a1, a2, a3, b0, b1)                                                    \
    simt_mma(sum, {a0, a1, a2, a3}, {b0, b1}, signs[0] == 's', signs[3] == 's')
#define MMA_BEGIN(signs, sum, start, a0, a1, a2, a3, b0, b1)                                       \
    do {                                                                                           \
        sum[0] = sum[1] = sum[2] = sum[3] = start;                                                 \
        MMA(signs, sum, a0, a1, a2, a3, b0, b1);                                                   \
    } while (0)
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
/* Compute capability 7.5 has products of 8 x 16 and 16 x 8. Their registers are as above. */
#define MMA_QUARTER(signs, sum, i, a, b)                                                           \
    asm("mma.sync.aligned.m8n8k16.row.col.s32." signs ".s32 {%0, %1}, {%2}, {%3}, {%0, %1};"       \
        : "+r"(sum[i]), "+r"(sum[i + 1])                                                           \
        : "r"(a), "r"(b))
#define MMA(signs, sum, a0, a1, a2, a3, b0, b1)                                                    \
    do {                                                                                           \
        MMA_QUARTER(signs, sum, 0, a0, b0);                                                        \
        MMA_QUARTER(signs, sum, 0, a2, b1);                                                        \
        MMA_QUARTER(signs, sum, 2, a1, b0);                                                        \
        MMA_QUARTER(signs, sum, 2, a3, b1);                                                        \
    } while (0)
#define MMA_BEGIN(signs, sum, start, a0, a1, a2, a3, b0, b1)                                       \
    do {                                                                                           \
        sum[0] = sum[1] = sum[2] = sum[3] = start;                                                 \
        MMA(signs, sum, a0, a1, a2, a3, b0, b1);                                                   \
    } while (0)
#else
#define MMA(signs, sum, a0, a1, a2, a3, b0, b1)                                                    \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." signs                                             \
        ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                     \
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])                                   \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
/* Sets the sum to the product plus `start`. No instruction clears the sum before. */
#define MMA_BEGIN(signs, sum, start, a0, a1, a2, a3, b0, b1)                                       \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." signs                                             \
        ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"                 \
        : "=r"(sum[0]), "=r"(sum[1]), "=r"(sum[2]), "=r"(sum[3])                                   \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(start))
#endif

/* The rows are pixels, the columns are weights. */
SIMT void mma_pixels(int32_t (&sum)[4], const uint32_t (&pixels)[4], uint2 weights)
{
    MMA(MMA_PIXELS_WEIGHTS, sum, pixels[0], pixels[1], pixels[2], pixels[3], weights.x, weights.y);
}

/* As mma_pixels, but sets the sum to the product plus `start`. */
SIMT void mma_pixels_begin(int32_t (&sum)[4], int32_t start, const uint32_t (&pixels)[4],
                           uint2 weights)
{
    MMA_BEGIN(MMA_PIXELS_WEIGHTS, sum, start, pixels[0], pixels[1], pixels[2], pixels[3], weights.x,
              weights.y);
}

/* The rows are weights, the columns are pixels. */
SIMT void mma_weights(int32_t (&sum)[4], uint4 weights, uint32_t low, uint32_t high)
{
    MMA(MMA_WEIGHTS_PIXELS, sum, weights.x, weights.y, weights.z, weights.w, low, high);
}

/* As mma_weights, but sets the sum to the product plus `start`. */
SIMT void mma_weights_begin(int32_t (&sum)[4], int32_t start, uint4 weights, uint32_t low,
                            uint32_t high)
{
    MMA_BEGIN(MMA_WEIGHTS_PIXELS, sum, start, weights.x, weights.y, weights.z, weights.w, low,
              high);
}

/* Limits four values to 0..255, and packs them from the lowest byte on. */
SIMT uint32_t pack_bytes(int32_t a, int32_t b, int32_t c, int32_t d)
{
#if defined(SIMT_HOST)
    auto byte = [](int32_t value) { return (uint32_t)(value < 0 ? 0 : value > 255 ? 255 : value); };
    return byte(a) | byte(b) << 8 | byte(c) << 16 | byte(d) << 24;
#else
    uint32_t high, word;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(d), "r"(c));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(b), "r"(a), "r"(high));
    return word;
#endif
}
