/*
 * point.h - operations on single pixels, several of them in one pass.
 *
 * What acts on each channel alone is a table of 256 bytes, made on the host when the plan is
 * built. Tables that meet are composed, b after a being b[a[v]], and one mixture of the channels
 * may stand between two of them: gray, or a 3 x 4 matrix. A byte stands between any two steps of
 * such a pass as it would between two passes, so the bits do not depend on what was fused. Alpha
 * is left as it is, but for gray, before which it is flattened over the background.
 */
#ifndef GPUIMGD_GPU_OPS_POINT_H
#define GPUIMGD_GPU_OPS_POINT_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/ops/grayscale.h"
#include "gpu/ops/prologue.h"
#include "gpu/ops/pixel.h"
#include "gpu/plan/chain.h"

#ifdef __cplusplus
extern "C" {
#endif

enum point_mix {
    POINT_TABLE,  /* nothing: the first table is all there is */
    POINT_GRAY,   /* 3 or 4 channels to 1 */
    POINT_MATRIX, /* of the three colours */
    POINT_YCC,    /* the same, by another name: from Y, Cb, Cr */
    POINT_TINT,   /* 1 channel to 3, with a table for each: a matrix on gray */
    POINT_MIXES
};

#define POINT_BEFORE 0
#define POINT_AFTER 1
#define POINT_TABLES 3

/* Coefficients in 1/65536 up to 32 and offsets up to 4096 keep the sum of three products within
 * 32 bits: 3 * 32 * 255 + 4096 + 1 < 2^15. */
#define POINT_COEFFICIENT_MAX 32
#define POINT_OFFSET_MAX 4096

/* The gamma of `gamma` and of `levels`. */
#define POINT_GAMMA_MIN 0.01
#define POINT_GAMMA_MAX 100

struct point {
    uint8_t tables[POINT_TABLES][256]; /* before and after the mixture; tint: of R, G, B */
    int32_t matrix[3][4];              /* in 1/65536; column 3 holds the offset plus 1/2 */
    struct grayscale gray;
    enum point_mix mix;
    bool before, after; /* whether these tables change anything */
};

/* The sum of a row of the matrix, cut to 0..0xFFFFFF: bits 16 to 23 are the result. */
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

/* Each appends one pass at most, or takes its place in the last one. A table that changes
 * nothing adds nothing, and what two tables undo is taken off. */
void point_add_table(struct chain *chain, const uint8_t table[256]);
/* coefficients: 3 rows of R, G, B and an offset, in 1/65536. Gray counts as R = G = B, and
 * becomes RGB. */
void point_add_matrix(struct chain *chain, const int32_t coefficients[12]);
/* The same of 3 channels that are Y, Cb and Cr. */
void point_add_ycc(struct chain *chain, const int32_t coefficients[12]);
/* Nothing on one channel. */
void point_add_gray(struct chain *chain, const struct grayscale *gray);
/* Whether the last pass is one that point_add_gray would take its place in. */
bool point_takes_gray(const struct chain *chain);
/* For a pass that can do this as it takes its pixels in: where the last pass is a table alone, or
 * gray with or without a table behind it, takes it off. *prologue is what it did. Gives the shape
 * of what is then taken in: the chain's own, or that with one channel. */
struct pass_shape point_lift(struct chain *chain, struct prologue *prologue);

pass_cuda point_cuda;

#ifdef __cplusplus
}
#endif
#endif
