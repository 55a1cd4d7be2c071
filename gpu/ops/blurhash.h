/*
 * blurhash.h - the sums of a BlurHash: linear colours, weighted by cosines.
 *
 * The coefficient (i, j) of a channel is the mean of L(x, y) cos(pi i x / width) cos(pi j y /
 * height). Linear colours and cosines are integers in 1/2^26. All sums are exact except for two
 * roundings per span of a row, so the order of the sums does not matter. The mean (0, 0) needs no
 * cosines: it is the exact sum of colours in 1/2^30, because one step of a dark colour is only
 * 1/3295.
 */
#pragma once

#include "conf/limits.h"
#include "gpu/ops/grayscale.h"

#define BLURHASH_SIDE_MAX 9
/* Fractional bits of a linear colour and of a cosine, in products. */
#define BLURHASH_BITS 26
/* A row is divided into spans of this number of columns. */
#define BLURHASH_SPAN 1024
/* Fractional bits of the table of linear colours, and of the result. */
#define BLURHASH_SUM_BITS 30
#define BLURHASH_SUMS_MAX (BLURHASH_SIDE_MAX * BLURHASH_SIDE_MAX * 3)

static_assert((1ll << 2 * BLURHASH_BITS) <= (1ll << 62) / BLURHASH_SPAN,
              "the products of a span fit 64 bits");
static_assert(PIXELS_CEILING < 1ull << (62 - BLURHASH_SUM_BITS), "so do the sums of an image");

struct blurhash {
    int32_t across, down; /* number of components */
    struct flatten under; /* of RGBA */
};

/* The constants of the pass are int32: a linear colour per sRGB value; then the cosines of the
 * columns, `width` per component across; then those of the rows, `height` per component down. */
#define BLURHASH_COLOURS 256

/* A linear colour for products. */
PIXEL int32_t blurhash_short(int32_t linear)
{
    const int excess = BLURHASH_SUM_BITS - BLURHASH_BITS;
    return (linear + (1 << (excess - 1))) >> excess;
}

/* Rounds the sum of a span's products to BLURHASH_BITS. */
PIXEL int64_t blurhash_narrow(int64_t sum)
{
    return (sum + (1 << (BLURHASH_BITS - 1))) >> BLURHASH_BITS;
}

/* A span's sum times the cosine of its row, rounded to BLURHASH_SUM_BITS. */
PIXEL int64_t blurhash_weigh(int64_t span, int32_t cosine)
{
    const int excess = 2 * BLURHASH_BITS - BLURHASH_SUM_BITS;
    return (span * cosine + (1 << (excess - 1))) >> excess;
}
