/*
 * sobel.h - computes the magnitude of the 3 x 3 Sobel gradient of gray. The definition of op_sobel
 * (sobel.c) has the formulas.
 *
 * One pass applies the prologue, which makes gray of colours, and computes the gradient. Each pixel
 * of the source is read once.
 */
#pragma once

#include "gpu/ops/prologue.h"

enum sobel_magnitude { SOBEL_HALF, SOBEL_L1, SOBEL_L2 };

struct sobel {
    enum sobel_magnitude magnitude;
    enum border border;
    struct prologue prologue; /* makes gray of colours */
};

/* As border_inside, for an index of -1 to `size`. With BORDER_ZERO the result only needs to be
 * inside of the image, because the outermost pixels of the result are set to 0. */
PIXEL int sobel_inside(int index, int size, enum border border)
{
    if (index < 0)
        return border == BORDER_REFLECT101 && size > 1 ? -index : 0;
    if (index >= size)
        return border == BORDER_REFLECT101 && size > 1 ? 2 * size - 2 - index : size - 1;
    return index;
}

/* The horizontal and the vertical gradient at column x of row m. a and b are the rows above and
 * below it. left and right are the columns x - 1 and x + 1, mapped by sobel_inside. */
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

/* min(255, floor(sqrt(n))) for 0 <= n < 2^22. The root of n + 1/2 is computed, which is exact in a
 * float. For k^2 <= n < (k + 1)^2 and k <= 255, this root differs from k and from k + 1 by at least
 * 1/1100. That is much more than the error of any square root that is accurate to a few units in
 * the last place, so its integer part is right. */
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
