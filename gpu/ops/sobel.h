/*
 * sobel.h - the length of the 3 x 3 Sobel gradient of gray.
 *
 *     a b c    Gx = (a + 2d + g) - (c + 2f + i)
 *     d e f    Gy = (a + 2b + c) - (g + 2h + i)
 *     g h i
 *
 * half: min(255, (|Gx| + |Gy|) >> 1); l1: min(255, |Gx| + |Gy|); l2: min(255, floor(sqrt(Gx^2 +
 * Gy^2))). Borders: reflect101 (as OpenCV's default), replicate, or zero: the output's outermost
 * frame is 0. A side of one pixel reflects onto itself.
 *
 * One pass makes gray of 1, 3 or 4 channels, looks it up in a table where there is one, and takes
 * its gradient: a colour pixel is read once.
 */
#ifndef GPUIMGD_GPU_OPS_SOBEL_H
#define GPUIMGD_GPU_OPS_SOBEL_H

#include <stdint.h>

#include "gpu/ops/prologue.h"
#include "gpu/ops/pixel.h"
#include "gpu/plan/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

enum sobel_magnitude { SOBEL_HALF, SOBEL_L1, SOBEL_L2 };
enum sobel_border { SOBEL_REFLECT101, SOBEL_REPLICATE, SOBEL_ZERO };

struct sobel {
    enum sobel_magnitude magnitude;
    enum sobel_border border;
    struct prologue prologue; /* gray, where it is made of colours */
};

/* The index inside 0..size-1 that stands for index -1..size. A zero border needs any. */
PIXEL int sobel_inside(int index, int size, enum sobel_border border)
{
    if (index < 0)
        return border == SOBEL_REFLECT101 && size > 1 ? -index : 0;
    if (index >= size)
        return border == SOBEL_REFLECT101 && size > 1 ? 2 * size - 2 - index : size - 1;
    return index;
}

/* Columns left and right stand for x - 1 and x + 1 of the rows above (a), at (m), below (b). */
PIXEL int sobel_gx(const uint8_t *a, const uint8_t *m, const uint8_t *b, size_t left, size_t right)
{
    return (a[left] + 2 * m[left] + b[left]) - (a[right] + 2 * m[right] + b[right]);
}

PIXEL int sobel_gy(const uint8_t *a, const uint8_t *b, size_t left, size_t x, size_t right)
{
    return (a[left] + 2 * a[x] + a[right]) - (b[left] + 2 * b[x] + b[right]);
}

PIXEL int sobel_sum(int gx, int gy)
{
    return (gx < 0 ? -gx : gx) + (gy < 0 ? -gy : gy);
}

/* min(255, floor(sqrt(n))) for 0 <= n < 2^22, so that n + 1/2 is exact in a float. With k^2 <= n <
 * (k+1)^2 and k <= 255 the root of n + 1/2 keeps 1/1100 away from both k and k + 1: dozens of
 * roundings, so the integer part is right with any square root that is good to a few units in
 * the last place. */
PIXEL int sobel_root(int n)
{
    float root, middle = (float)n + 0.5f;
#ifdef __CUDA_ARCH__
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(middle));
#else
    root = __builtin_sqrtf(middle);
#endif
    int whole = (int)root;
    return whole > 255 ? 255 : whole;
}

pass_cuda sobel_cuda;

#ifdef __cplusplus
}
#endif
#endif
