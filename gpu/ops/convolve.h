/*
 * convolve.h - convolution with any kernel of odd sides up to 15 x 15, in 16.16 fixed point.
 *
 * The definition of op_convolve (convolve.c) has the formula, and bounds for the weights. Within
 * them, sums in any order fit in 32 bits.
 */
#pragma once

#include "gpu/ops/prologue.h"

#define CONVOLVE_SIDE_MAX 15
#define CONVOLVE_WEIGHT_SUM_MAX (127 * 65536)
#define CONVOLVE_OFFSET_MAX 255

static_assert(255ll * CONVOLVE_WEIGHT_SUM_MAX + CONVOLVE_OFFSET_MAX * 65536ll + 32768 < 1ll << 31,
              "a sum must fit 32 bits");

struct convolve {
    int rows, columns; /* odd */
    enum border border;
    int32_t start; /* the first summand: the offset, and 1/2 for rounding, in units of 1/65536 */
    int32_t weights[CONVOLVE_SIDE_MAX * CONVOLVE_SIDE_MAX]; /* in units of 1/65536, row by row */
    struct prologue prologue;
};

/* The result of a sum in units of 1/65536. */
PIXEL int convolve_byte(int32_t sum)
{
    int value = sum >> 16;
    return value < 0 ? 0 : value > 255 ? 255 : value;
}
