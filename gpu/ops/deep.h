/*
 * deep.h - the passes of deep images, whose samples have 16 bits (codecs/image.h), and their
 * arithmetic.
 *
 * They are simple: few jobs have such images. All of them read rows at any address of a sample, so
 * a crop before them needs no copy. The passes that move pixels have the parameters of those of 8
 * bits. The passes of resize sum 64-bit integers: with the 22 fractional bits of resample.h, the
 * weights of a wide mean would miss a sum of 1 by some units of a 16-bit sample.
 */
#pragma once

#include "gpu/ops/pixel.h"
#include "gpu/plan/chain.h"

/* Fractional bits of weights in int32_t. All weights are less than 2. */
#define DEEP_BITS 30

#define DEEP_MAX 65535u

PIXEL uint32_t deep_widen(uint32_t byte)
{
    return byte * 257;
}

/* As decoders scale 16 bits to 8: rounded to nearest. */
PIXEL uint32_t deep_narrow(uint32_t sample)
{
    return (sample * 255 + DEEP_MAX / 2) / DEEP_MAX;
}

/* value * alpha / 65535, rounded to nearest */
PIXEL uint32_t deep_premultiply(uint32_t value, uint32_t alpha)
{
    return (value * alpha + DEEP_MAX / 2) / DEEP_MAX;
}

/* 65535 value / alpha, rounded to nearest, at most 65535; for alpha 0 the value itself */
PIXEL uint32_t deep_divide(uint32_t value, uint32_t alpha)
{
    uint32_t whole = alpha ? (value * DEEP_MAX + alpha / 2) / alpha : value;
    return whole > DEEP_MAX ? DEEP_MAX : whole;
}

/* The sample of a sum of products with weights. */
PIXEL uint16_t deep_clip(int64_t sum)
{
    int64_t value = (sum + (1 << (DEEP_BITS - 1))) >> DEEP_BITS;
    return (uint16_t)(value < 0 ? 0 : value > (int64_t)DEEP_MAX ? DEEP_MAX : value);
}

extern const struct pass_type pass_deep_orient; /* orient.h */
extern const struct pass_type pass_deep_pad;    /* pad.h */
/* resample.h: `packed` and `ring` are 0, weights have DEEP_BITS. deep_work_bytes: of the passes of
 * resize for this source. */
extern const struct pass_type pass_deep_pick, pass_deep_x, pass_deep_y;
size_t deep_work_bytes(struct pass_shape from);
