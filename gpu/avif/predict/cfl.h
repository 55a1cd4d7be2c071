/*
 * cfl.h - chroma from luma (AV1 7.11.5): the DC prediction of a chroma block plus alpha times what
 * its luma differs from its mean.
 */
#pragma once

#include "gpu/avif/frame/encoder.h"

/* Sets 8 times the reconstructed luma of each chroma sample, less the mean. (x, y): of the block in
 * luma; size: of the chroma block; right, bottom: the ends of luma's transforms, which may be
 * beyond the frame, but not beyond the block */
DEVICE void avif_cfl_luma(const struct avif_plane *luma, int x, int y, int size, int right,
                          int bottom, int16_t *to)
{
    int side = 1 << size, sum = 0;
    for (int row = 0; row < side; row++)
        for (int column = 0; column < side; column++) {
            int left = avif_min(x + 2 * column, right - 2);
            int top = avif_min(y + 2 * row, bottom - 2);
            const uint8_t *at = luma->samples + (size_t)top * luma->stride + (size_t)left;
            int value = 2 * (at[0] + at[1] + at[luma->stride] + at[luma->stride + 1]);
            to[row * side + column] = (int16_t)value;
            sum += value;
        }
    int mean = (sum + (1 << (2 * size) >> 1)) >> (2 * size);
    for (int i = 0; i < side * side; i++)
        to[i] = (int16_t)(to[i] - mean);
}

/* Returns the end of the last transform in a block of `size` that begins before `end`. */
DEVICE int avif_cfl_end(int begin, int size, int transform_size, int end)
{
    int mask = (1 << transform_size) - 1, room = avif_min(end - begin, 1 << size);
    return begin + ((room + mask) & ~mask);
}

/* alpha: in eighths; luma: 8 times a difference */
DEVICE int avif_cfl_part(int alpha, int luma)
{
    int product = alpha * luma;
    return product >= 0 ? (product + 32) >> 6 : -((32 - product) >> 6);
}

/* Returns 64 product / square, rounded, from -16 to 16. */
DEVICE int avif_cfl_alpha(int64_t product, int64_t square)
{
    if (square == 0)
        return 0;
    int64_t scaled = 64 * (product < 0 ? -product : product);
    int64_t alpha = (scaled + square / 2) / square;
    alpha = alpha > 16 ? 16 : alpha;
    return (int)(product < 0 ? -alpha : alpha);
}

/* By how much CfL makes the squares of 8 times the differences less, about, if it adds alpha times
 * luma to DC. product: the sum of luma times the differences from DC; square: of luma */
DEVICE int64_t avif_cfl_gain(int alpha, int64_t product, int64_t square)
{
    return (alpha * (128 * product - alpha * square)) >> 6;
}
