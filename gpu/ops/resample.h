/*
 * resample.h - weighted means along one axis, and the nearest pixel: the passes of resize.
 *
 * Every output has its first source pixel and `taps` weights in 1/2^22 from there on; the sum,
 * with half a unit added, is shifted down and cut to a byte. The tables are the pass's constants:
 * int32 first[outputs], then int32 weights[outputs][taps], those that are not used 0. Of RGBA the
 * first pass multiplies colours by alpha and the last one divides them again, as Pillow's RGBa.
 */
#ifndef GPUIMGD_GPU_OPS_RESAMPLE_H
#define GPUIMGD_GPU_OPS_RESAMPLE_H

#include <stdint.h>

#include "gpu/ops/pixel.h"
#include "gpu/plan/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 8 bits are the pixel's, and two hold what weights below 0 and above 1 add. */
#define RESAMPLE_BITS 22
/* taps is a multiple of this, so that the CPU's loops come out even. */
#define RESAMPLE_TAPS_STEP 8

struct resample {
    uint32_t taps;
    uint32_t skip;       /* resample_x: rows of the source above the first that is wanted */
    uint8_t premultiply; /* this pass is the first of an RGBA image */
    uint8_t divide;      /* and the last */
};

PIXEL uint32_t resample_clip(int32_t sum)
{
    int32_t value = sum >> RESAMPLE_BITS;
    return (uint32_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* value * alpha / 255 to the nearest. */
PIXEL uint32_t resample_premultiply(uint32_t value, uint32_t alpha)
{
    uint32_t x = value * alpha + 128u;
    return (x + (x >> 8)) >> 8;
}

/* min(255, floor(255 value / alpha)). The quotient of two integers below 2^16 is further from
 * the next integer above it than half a unit in its last place, so a float division is exact
 * enough; alpha 0 and 255 leave the value. */
PIXEL uint32_t resample_divide(uint32_t value, uint32_t alpha)
{
    uint32_t whole = (uint32_t)((float)(255u * value) / (float)(alpha ? alpha : 255u));
    return whole > 255u ? 255u : whole;
}

extern const struct pass_type pass_resample_x, pass_resample_y;
/* Constants: int32 x[to.width], then int32 y[to.height]: the source's pixel of each. */
extern const struct pass_type pass_pick;

/* What resample_x needs to work in, for a source of this width. */
size_t resample_x_work_bytes(uint32_t width, uint32_t channels, uint32_t taps);

pass_cuda resample_x_cuda, resample_y_cuda, pick_cuda;

#ifdef __cplusplus
}
#endif
#endif
