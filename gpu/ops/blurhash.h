/*
 * blurhash.h - the sums from which a BlurHash is made: linear colours, weighted by cosines.
 *
 * The coefficient (i, j) of a channel is the mean over all pixels of L(x, y) cos(pi i x / width)
 * cos(pi j y / height), where L is the linear colour. Linear colours and cosines are integers in
 * units of 1/2^26. A row is summed in spans, and a span's sum is rounded twice; all other sums are
 * exact, so their order does not matter. The coefficient (0, 0), the mean colour, needs no cosines.
 * It is the exact sum of colours in units of 1/2^30, because dark colours differ by only 1/3295.
 */
#pragma once

#include "conf/limits.h"
#include "gpu/ops/grayscale.h"

#define BLURHASH_SIDE_MAX 9
/* Fractional bits of the linear colours and the cosines that are multiplied. */
#define BLURHASH_BITS 26
/* A row is divided into spans of this number of columns. */
#define BLURHASH_SPAN 1024
/* Fractional bits of the table of linear colours, and of the sums of the image. */
#define BLURHASH_SUM_BITS 30
#define BLURHASH_SUMS_MAX (BLURHASH_SIDE_MAX * BLURHASH_SIDE_MAX * 3)

static_assert((1ll << 2 * BLURHASH_BITS) <= (1ll << 62) / BLURHASH_SPAN,
              "the products of a span fit 64 bits");
static_assert(PIXELS_CEILING < 1ull << (62 - BLURHASH_SUM_BITS), "so do the sums of an image");

struct blurhash {
    int32_t across, down; /* number of components i, and j */
    struct flatten under; /* the background over which RGBA is flattened */
    uint8_t zero;         /* no padding: pass.h */
};

/* The constants of the pass are int32_t: the linear colour of each sRGB value; then the cosines of
 * the columns, `width` for each component across; then those of the rows, `height` for each
 * component down. */
#define BLURHASH_COLOURS 256

/* Rounds a linear colour of the table to BLURHASH_BITS. */
PIXEL int32_t blurhash_short(int32_t linear)
{
    const int excess = BLURHASH_SUM_BITS - BLURHASH_BITS;
    return (linear + (1 << (excess - 1))) >> excess;
}

/* Rounds a span's sum of products of colours and cosines to BLURHASH_BITS. */
PIXEL int64_t blurhash_narrow(int64_t sum)
{
    return (sum + (1 << (BLURHASH_BITS - 1))) >> BLURHASH_BITS;
}

/* Multiplies a span's sum by the cosine of its row, and rounds to BLURHASH_SUM_BITS. */
PIXEL int64_t blurhash_weigh(int64_t span, int32_t cosine)
{
    const int excess = 2 * BLURHASH_BITS - BLURHASH_SUM_BITS;
    return (span * cosine + (1 << (excess - 1))) >> excess;
}
