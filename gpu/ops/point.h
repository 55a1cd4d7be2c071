/*
 * point.h - operations on single pixels, several of which are fused into one pass.
 *
 * An operation on each channel alone is a table of 256 bytes, computed on the host when the plan
 * is built. Adjacent tables are composed: b after a is b[a[v]]. A pass may have one mixture of the
 * channels between two tables: gray, or a 3 x 4 matrix. The value between two steps is a byte, as
 * between two passes, so that fusing does not change the result. Alpha is kept, but gray flattens
 * it over the background first.
 */
#pragma once

#include "gpu/ops/prologue.h"
#include "gpu/plan/chain.h"

enum point_mix {
    POINT_TABLE,  /* no mixture: only the first table */
    POINT_GRAY,   /* 3 or 4 channels to 1 */
    POINT_MATRIX, /* of the three colours */
    POINT_YCC,    /* the same matrix on Y, Cb, Cr, with its own name */
    POINT_TINT,   /* a matrix on gray: 1 channel to 3, with a table each */
    POINT_MIXES
};

#define POINT_BEFORE 0
#define POINT_AFTER 1
#define POINT_TABLES 3

/* Coefficients in 1/65536 of at most 32, and offsets of at most 4096, keep the sum of three
 * products within 32 bits: 3 * 32 * 255 + 4096 + 1 < 2^15. */
#define POINT_COEFFICIENT_MAX 32
#define POINT_OFFSET_MAX 4096

struct point {
    uint8_t tables[POINT_TABLES][256]; /* before and after the mixture; with POINT_TINT those of
                                          R, G, B */
    int32_t matrix[3][4];              /* in 1/65536; column 3 holds the offset plus 1/2 */
    struct grayscale gray;
    enum point_mix mix;
    bool before, after; /* whether these tables change anything */
};

/* The sum of a row of the matrix, clamped to 0..0xFFFFFF. Bits 16 to 23 are the result. */
PIXEL int32_t point_sum(int32_t r, int32_t g, int32_t b, int32_t by_r, int32_t by_g, int32_t by_b,
                        int32_t offset)
{
    int32_t sum = by_r * r + by_g * g + by_b * b + offset;
#ifdef __CUDA_ARCH__
    return __vimin_s32_relu(sum, 0xFFFFFF);
#else
    sum = sum > 0xFFFFFF ? 0xFFFFFF : sum;
    return sum < 0 ? 0 : sum;
#endif
}

/* The point_add functions append at most one pass each, or change the last pass. A table that
 * changes nothing is not added. If two tables cancel each other, the pass is removed. */
void point_add_table(struct chain *chain, const uint8_t table[256]);
/* coefficients: 3 rows of R, G, B and an offset, in 1/65536. Gray counts as R = G = B and becomes
 * RGB. */
void point_add_matrix(struct chain *chain, const int32_t coefficients[12]);
/* Does nothing for one channel. */
void point_add_gray(struct chain *chain, const struct grayscale *gray);
/* Whether point_add_gray would change the last pass instead of appending one. */
bool point_takes_gray(const struct chain *chain);
/* For passes with a prologue. If the last pass is only a table, or gray with or without a table
 * after it, removes the pass and describes it in *prologue. Returns the shape after the prologue:
 * that of the chain, or with one channel. */
struct pass_shape point_lift(struct chain *chain, struct prologue *prologue);
