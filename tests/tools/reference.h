/*
 * reference.h - what the operations compute, written down naively, one pixel at a time.
 *
 * Straight from the definitions in README, sharing nothing with gpu/. Each takes a raster and
 * gives a new one.
 */
#ifndef GPUIMGD_TESTS_TOOLS_REFERENCE_H
#define GPUIMGD_TESTS_TOOLS_REFERENCE_H

#include "tests/tools/raster.h"

enum reference_magnitude { REFERENCE_HALF, REFERENCE_L1, REFERENCE_L2 };
enum reference_border { REFERENCE_REFLECT101, REFERENCE_REPLICATE, REFERENCE_ZERO };

/* EXIF orientation 1..8: what a viewer shows. */
struct raster reference_orient(const struct raster *in, int orientation);
/* RGBA over a background, round half up. RGB and gray are copied. */
struct raster reference_flatten(const struct raster *in, const uint8_t background[3]);
/* Gray of 1, 3 or 4 channels. weights in 1/65536; NULL: ITU-R BT.601-7. */
struct raster reference_gray(const struct raster *in, const uint32_t weights[3],
                             const uint8_t background[3]);
/* RGB of a pixel of Y, Cb, Cr: libjpeg's tables (jdcolor.c), entry by entry. */
void reference_ycc_pixel(const uint8_t ycc[3], uint8_t rgb[3]);
/* Edges of a gray raster. */
struct raster reference_sobel(const struct raster *gray, enum reference_magnitude magnitude,
                              enum reference_border border);
/* 255 on the thin edges of a gray raster, else 0: Canny, |Gx| + |Gy| over two thresholds. */
struct raster reference_canny(const struct raster *gray, int low, int high);
/* The perceptual hash of a gray raster of 32 x 32, in long doubles. Values closer to the median
 * than these can tell are taken to be equal to it, so not above it. */
uint64_t reference_phash(const struct raster *gray);

#endif
