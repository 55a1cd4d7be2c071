/*
 * point.h - the pass of operations that compute each pixel only from itself. Several such
 * operations become one pass.
 *
 * An operation that treats each channel alone (gamma, invert) is a table of 256 bytes, which is
 * computed when the plan is built. Adjacent tables become one: table b after table a is b[a[v]]. A
 * pass may also mix the channels once, between two tables: to gray, or by a 3 x 4 matrix. All
 * values between these steps are bytes, as they would be between two passes, so that the result is
 * the same. Alpha is kept; only the conversion to gray flattens it over the background first.
 */
#pragma once

#include "gpu/ops/prologue.h"
#include "gpu/plan/chain.h"

enum point_mix {
    POINT_TABLE,  /* does not mix: has only the first table */
    POINT_GRAY,   /* makes gray of 3 or 4 channels */
    POINT_MATRIX, /* multiplies the three colours by a matrix */
    POINT_YCC,    /* the same for Y, Cb and Cr, as a pass with another name */
    POINT_TINT,   /* a matrix on gray, which gives 3 channels: each is a table of the gray */
    POINT_MIXES
};

#define POINT_BEFORE 0
#define POINT_AFTER 1
#define POINT_TABLES 3

/* The largest coefficient and the largest offset of a matrix. In units of 1/65536, a row's sum then
 * fits into 32 bits: 3 * 32 * 255 + 4096 + 1 < 2^15. */
#define POINT_COEFFICIENT_MAX 32
#define POINT_OFFSET_MAX 4096

struct point {
    uint8_t tables[POINT_TABLES][256]; /* POINT_BEFORE and POINT_AFTER the mixing; with POINT_TINT
                                          those of R, G and B */
    int32_t matrix[3][4];              /* in units of 1/65536; column 3 is the offset plus 1/2 */
    struct grayscale gray;
    bool before, after; /* whether the tables before and after change anything */
    enum point_mix mix;
};

/* Multiplies a colour by a row of the matrix. Returns the sum, clamped to 0..0xFFFFFF; its bits 16
 * to 23 are the resulting byte. */
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

/* The point_add functions change the last pass, or append one if they cannot. A table that changes
 * nothing is not added. If two tables cancel each other, the pass is removed. */
void point_add_table(struct chain *chain, const uint8_t table[256]);
/* coefficients: 3 rows of factors for R, G and B and an offset, in units of 1/65536. A gray image
 * becomes RGB; its pixels count as R = G = B. */
void point_add_matrix(struct chain *chain, const int32_t coefficients[12]);
/* Does nothing if the image is gray. */
void point_add_gray(struct chain *chain, const struct grayscale *gray);
/* Whether point_add_gray would change the last pass instead of appending one. */
bool point_takes_gray(const struct chain *chain);
/* For a pass that can apply a prologue (prologue.h). If the last pass is only a table, or only
 * makes gray, with or without a table after it, removes that pass and describes it in *prologue.
 * Returns the shape of the image after the prologue. */
struct pass_shape point_lift(struct chain *chain, struct prologue *prologue);
