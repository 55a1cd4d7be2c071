/*
 * phash.h - the perceptual hash of a 32 x 32 gray picture: 64 bits from its lowest frequencies.
 *
 * As Python's imagehash.phash has it: an unnormalised DCT-II down the columns, then along the
 * rows, of which the first 8 x 8 remain; a bit is set where a value is above the median of the 64.
 * The DCT is W X W^T with weights of 2^18 cos(), rounded. From there on everything is an exact
 * integer: both engines agree whatever the order of their sums, and equal values stay equal,
 * where doubles leave it to rounding on which side of the median they fall.
 */
#ifndef GPUIMGD_GPU_OPS_PHASH_H
#define GPUIMGD_GPU_OPS_PHASH_H

#include <assert.h>
#include <stdint.h>

#include "gpu/ops/pixel.h"
#include "gpu/plan/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PHASH_SIDE 32
#define PHASH_KEPT 8
#define PHASH_VALUES (PHASH_KEPT * PHASH_KEPT)
/* Of the two values in the middle, by rank from 0. */
#define PHASH_MIDDLE (PHASH_VALUES / 2 - 1)
/* The largest weight, 2 cos(0) in 1/2^17. */
#define PHASH_WEIGHT_MAX (1 << 18)

static_assert(255ll * PHASH_SIDE * PHASH_WEIGHT_MAX <= INT32_MAX,
              "the sums of the first product fit 32 bits");
static_assert((1ll << 31) * PHASH_SIDE <= INT64_MAX / 4 / PHASH_WEIGHT_MAX,
              "those of the second, doubled, fit 64 bits");

/* What the pass reads from its constants. */
struct phash_weights {
    int32_t at[PHASH_KEPT][PHASH_SIDE]; /* 2 cos(pi k (2 n + 1) / 64) of frequency k at n */
};

/* Whether value a, the i-th, comes before value b, the j-th, in their order: no two are equal. */
PIXEL int phash_before(int64_t a, int i, int64_t b, int j)
{
    return a < b || (a == b && i < j);
}

/* Reads pictures of 32 x 32 that stand one above the other and leaves a uint64_t each, the first
 * value's bit the highest one. */
extern const struct pass_type pass_phash;

pass_cuda phash_cuda;
pass_cuda_many phash_cuda_many;

#ifdef __cplusplus
}
#endif
#endif
