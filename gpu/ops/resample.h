/*
 * resample.h - weighted means along one axis, and nearest-pixel sampling: the passes of resize.
 *
 * Each output has its first source pixel and `taps` weights in 1/2^22. The sum plus half a unit is
 * shifted right and clamped to a byte. The tables are constants of the pass: int32 first[outputs],
 * then int32 weights[outputs][taps], padded with 0. For RGBA, the first pass multiplies the
 * colours by alpha and the last pass divides them by it, as Pillow's RGBa mode. resize.c computes
 * the tables on the host, in double.
 */
#pragma once

#include "gpu/ops/pixel.h"
#include "gpu/plan/chain.h"

/* 8 bits hold the pixel. Two more hold the excess of weights below 0 and above 1. */
#define RESAMPLE_BITS 22
/* taps is a multiple of this number, so that the CPU loops have no remainder. */
#define RESAMPLE_TAPS_STEP 8

struct resample {
    uint32_t taps;
    uint32_t skip;       /* resample_x: rows of the source above the first row needed */
    uint8_t premultiply; /* the first pass of an RGBA image */
    uint8_t divide;      /* the last pass of an RGBA image */
};

PIXEL uint32_t resample_clip(int32_t sum)
{
    int32_t value = sum >> RESAMPLE_BITS;
    return (uint32_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* value * alpha / 255, rounded to nearest. A macro, so that loops can also use it with vectors. */
#define RESAMPLE_PREMULTIPLY(value, alpha)                                                         \
    (((value) * (alpha) + 128 + (((value) * (alpha) + 128) >> 8)) >> 8)

PIXEL uint32_t resample_premultiply(uint32_t value, uint32_t alpha)
{
    return RESAMPLE_PREMULTIPLY(value, alpha);
}

/* min(255, floor(255 value / alpha)). A float division is exact enough: the quotient of two
 * integers below 2^16 differs from the next larger integer by more than half a unit in the last
 * place. Alpha 0 and 255 keep the value. */
PIXEL uint32_t resample_divide(uint32_t value, uint32_t alpha)
{
    uint32_t whole = (uint32_t)((float)(255u * value) / (float)(alpha ? alpha : 255u));
    return whole > 255u ? 255u : whole;
}

extern const struct pass_type pass_resample_x, pass_resample_y;
/* Constants: int32 x[to.width], then int32 y[to.height], the source coordinates of each output. */
extern const struct pass_type pass_pick;

/* Resizes the chain's image, which was decoded in full, to exactly this size with lanczos3. Appends
 * no pass if it has this size. */
enum status resize_exact(struct chain *chain, uint32_t width, uint32_t height) MUST_CHECK;
/* The same, to the largest size with the image's ratio whose sides are at most `side`. Appends no
 * pass if the image is not larger. */
enum status resize_within(struct chain *chain, uint32_t side) MUST_CHECK;

/* Work space of resample_x in bytes, for a source of this width. */
size_t resample_x_work_bytes(uint32_t width, uint32_t channels, uint32_t taps);
