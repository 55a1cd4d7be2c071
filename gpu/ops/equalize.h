/*
 * equalize.h - gray with an equalized histogram, equal to OpenCV's equalizeHist.
 *
 * With f the smallest value that occurs: table[i] = rint((float)(count of f+1..i) * scale), scale
 * = 255.0f / (float)(pixels - count of f), ties to even, at most 255. An image of a single value
 * is not changed.
 */
#ifndef GPUIMGD_GPU_OPS_EQUALIZE_H
#define GPUIMGD_GPU_OPS_EQUALIZE_H

#include <stdint.h>

#include "gpu/ops/gray_table.h"
#include "gpu/ops/pixel.h"

PIXEL float equalize_scale(uint32_t others)
{
    return 255.0f / (float)(int32_t)others;
}

/* Adding and subtracting 1.5 * 2^23 rounds a float of this size to an integer, ties to even. */
PIXEL uint8_t equalize_entry(uint32_t sum, float scale)
{
    float value = (float)(int32_t)sum * scale;
    int rounded = (int)((value + 12582912.0f) - 12582912.0f);
    return (uint8_t)(rounded > 255 ? 255 : rounded);
}

extern const struct pass_type pass_equalize;

#endif
