/*
 * ssim.h - the structural similarity (SSIM) of two images of the same size, for CPUs and GPUs.
 *
 * The definition is that of Wang, Bovik, Sheikh and Simoncelli, "Image quality assessment: from
 * error visibility to structural similarity" (2004), with these choices:
 * - Only luma is compared, as SSIM usually is: Y of libjpeg's integers, or Y of a file that has it.
 * - The windows have 8 x 8 samples of equal weight, and begin at every 4th column and row, as in
 *   x264 and FFmpeg. The paper has 11 x 11 samples with weights of a Gaussian, at every sample.
 * - An image is first extended to sides that are multiples of 4, and at least 8, by repeating its
 *   last column and row. So each sample is in a window, and an image of one pixel has a similarity.
 * - Variances are divided by the number of samples, not by one less.
 * - With alpha, the luma is laid over black and over white, and the lower similarity counts.
 *
 * All arithmetic is in integers, so that all hosts and devices find the same similarity. It is 0 to
 * SSIM_ONE, rounded down; a negative mean counts as 0. An image has the similarity SSIM_ONE to
 * itself. The error is less than two units: a quotient is cut after SSIM_BITS bits.
 */
#pragma once

#include <stdint.h>

#include "conf/format.h"

#ifdef __CUDACC__
#define SSIM_DEVICE static __host__ __device__ inline
#else
#define SSIM_DEVICE static inline __attribute__((unused))
#endif

#define SSIM_BITS 30
/* A window has 2 x 2 blocks of this side, and the next window begins one block later. */
#define SSIM_BLOCK 4

/* Sums of the samples of two images at the same places. */
struct ssim_sums {
    int32_t first, second;
    int32_t squares;  /* of both */
    int32_t products; /* of one with the other */
};

/* As in libjpeg. Of gray, it is the same value. */
SSIM_DEVICE int ssim_luma(int red, int green, int blue)
{
    return (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16;
}

/* Luma of a pixel with alpha over a background, rounded to the nearest. */
SSIM_DEVICE int ssim_over(int luma, int alpha, int background)
{
    return (luma * alpha + background * (255 - alpha) + 127) / 255;
}

/* The number of blocks along a side of the extended image. There is one window less. */
SSIM_DEVICE uint32_t ssim_blocks(uint32_t side)
{
    uint32_t blocks = side / SSIM_BLOCK + (side % SSIM_BLOCK > 0);
    return blocks < 2 ? 2 : blocks;
}

/* The similarity of a window with these sums, in units of 2^-SSIM_BITS. All terms are multiplied by
 * the square of the number of samples. */
SSIM_DEVICE int64_t ssim_window(const struct ssim_sums *sums)
{
    const int64_t samples = 64, c1 = 26634, c2 = 239708; /* (0.01 * 255 * 64)^2, (0.03 ...)^2 */
    const int64_t one = (int64_t)1 << SSIM_BITS;
    int64_t a = sums->first, b = sums->second;
    int64_t means = a * b, powers = a * a + b * b;
    int64_t luminance = (2 * means + c1) * one / (powers + c1);
    int64_t covariance = samples * sums->products - means;
    int64_t variances = samples * sums->squares - powers;
    int64_t structure = (2 * covariance + c2) * one / (variances + c2);
    return luminance * structure / one;
}

/* The mean of windows, from the sum of their similarities. */
SSIM_DEVICE int ssim_mean(int64_t sum, uint64_t windows)
{
    return sum < 0 ? 0 : (int)((sum / (int64_t)windows) * SSIM_ONE >> SSIM_BITS);
}
