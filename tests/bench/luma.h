/*
 * luma.h - how much an image differs from another one in luma, for curves of size and quality.
 *
 * Luma is that of BT.601, of 8-bit pixels of gray, RGB or RGBA, so that all formats are compared in
 * the same way. Both images have the same sides.
 */
#pragma once

#include "codecs/image.h"

/* Returns the PSNR in dB; 99 if the images are equal. */
double luma_psnr(const struct image *a, const struct image *b);

/* Returns the mean structural similarity (Wang, Bovik, Sheikh and Simoncelli, 2004) of squares of
 * 8 x 8 pixels, every 4 pixels; 1 if the images are equal or have no such square. */
double luma_ssim(const struct image *a, const struct image *b);
