/*
 * gaussian.h - Gaussian blur of 3 x 3 to 31 x 31 in 8.8 fixed point, and the unsharp mask.
 *
 * With weights w in 1/256 whose sum is 256, the result is (sum_j w_j sum_i w_i p + 32768) >> 16.
 * No intermediate value is rounded, so the order of the two sums does not matter. The weights are
 * those of OpenCV 4's 8-bit GaussianBlur: the double kernel is normalised and rounded from the
 * ends to the middle, with the error carried on. The middle weight is the rest of 256. The border
 * is reflect101. Alpha is kept.
 */
#ifndef GPUIMGD_GPU_OPS_GAUSSIAN_H
#define GPUIMGD_GPU_OPS_GAUSSIAN_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/ops/prologue.h"
#include "gpu/ops/pixel.h"
#include "gpu/plan/chain.h"

#define GAUSSIAN_RADIUS_MAX 15

struct gaussian {
    int radius;
    /* No weight is 256: all others would be 0, and no pass is needed. */
    uint8_t weights[2 * GAUSSIAN_RADIUS_MAX + 1];
    bool sharpen;
    int amount256; /* for the unsharp mask */
    struct prologue prologue;
};

/* s + amount (s - g), clamped to 0..255. */
PIXEL int unsharp_byte(int s, int g, int amount256)
{
    int value = s + ((amount256 * (s - g) + 128) >> 8);
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

/* The parameters that describe a Gaussian, as members of the struct `type`. */
#define GAUSSIAN_PARAMS(type)                                                                      \
    {OP_ODD(type, ksize), .min = 3, .max = 2 * GAUSSIAN_RADIUS_MAX + 1, .standard = 5},            \
    {                                                                                              \
        OP_NUMBER(type, sigma), .max = 1000, .help = "0 means 0.3 ((ksize - 1) / 2 - 1) + 0.8"     \
    }
/* Computes the weights. Returns false if they leave the image unchanged: then no pass is needed. */
bool gaussian_make(struct gaussian *gaussian, int ksize, double sigma);
/* Appends the pass. Fuses gray and tables before it as the prologue. */
void gaussian_append(struct chain *chain, const struct gaussian *gaussian);

#endif
