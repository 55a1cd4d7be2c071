/*
 * activity.h - how much contrast a luma block has.
 *
 * SSIM divides the error of a square by twice its variance, and a constant. So the same error is
 * seen sooner in blocks of little contrast. These get lower costs of bits when their levels are
 * chosen; the same cost for all makes PSNR best, and takes away the levels of dark noise.
 */
#pragma once

#include "gpu/avif/frame/encoder.h"

/* Of 8 x 8 samples with these sums. */
DEVICE int avif_activity_of(int sum, int squares)
{
    const int constant = 58;                                /* (0.03 * 255)^2, of SSIM */
    int twice_variance = (64 * squares - sum * sum) / 2048; /* at most 32512 */
    return highest_bit((uint32_t)(twice_variance + constant) / constant);
}

DEVICE int avif_cell_activity(const uint8_t *samples, size_t stride)
{
    int sum = 0, squares = 0;
    for (size_t y = 0; y < 8; y++)
        for (size_t x = 0; x < 8; x++) {
            int value = samples[y * stride + x];
            sum += value;
            squares += value * value;
        }
    return avif_activity_of(sum, squares);
}

/* The mean of the cells of a transform, or of the cell around a small one. Below ACTIVITIES. */
DEVICE int avif_activity(const struct avif_plane *source, int x, int y, int size)
{
    int across = size > 3 ? 1 << (size - 3) : 1, cells = across * across, sum = cells / 2;
    for (int i = 0; i < cells; i++)
        sum += avif_cell_activity(
            avif_sample_at(source, (x & -8) + i % across * 8, (y & -8) + i / across * 8),
            source->stride);
    return sum / cells;
}
