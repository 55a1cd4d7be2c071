/*
 * phash.h - computes the perceptual hash of a 32 x 32 gray image: 64 bits from its lowest
 * frequencies.
 *
 * The DCT of the image X is W X W^T, where W has the weights 2^18 cos(), rounded to integers. All
 * further steps are exact in integers, so the order of sums does not matter, and equal coefficients
 * stay equal. In floating point, rounding would decide on which side of the median such
 * coefficients are.
 */
#pragma once

#include "gpu/ops/pixel.h"
#include "gpu/plan/pass.h"

#define PHASH_SIDE 32
#define PHASH_KEPT 8
#define PHASH_VALUES (PHASH_KEPT * PHASH_KEPT)
/* The rank of the median, the lower of the two middle values, from 0. */
#define PHASH_MIDDLE (PHASH_VALUES / 2 - 1)
/* The largest weight: 2 cos(0) in units of 1/2^17. */
#define PHASH_WEIGHT_MAX (1 << 18)

static_assert(255ll * PHASH_SIDE * PHASH_WEIGHT_MAX <= INT32_MAX,
              "the sums of the first product fit 32 bits");
static_assert((1ll << 31) * PHASH_SIDE <= INT64_MAX / 4 / PHASH_WEIGHT_MAX,
              "those of the second, doubled, fit 64 bits");

/* The constants of the pass. */
struct phash_weights {
    int32_t at[PHASH_KEPT][PHASH_SIDE]; /* 2 cos(pi k (2 n + 1) / 64) of frequency k at n */
};

/* Whether value a with index i comes before value b with index j in the order that gives the
 * median. Equal values are ordered by their index, so that no two are equal. */
PIXEL int phash_before(int64_t a, int i, int64_t b, int j)
{
    return a < b || (a == b && i < j);
}
