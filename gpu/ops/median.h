/*
 * median.h - the median of 3 x 3 or 5 x 5 pixels per channel, equal to OpenCV's medianBlur.
 *
 * Borders are replicated. Alpha is kept; OpenCV would filter it. Both engines compute the median
 * with the same network of minima and maxima (median_network.h).
 */
#ifndef GPUIMGD_GPU_OPS_MEDIAN_H
#define GPUIMGD_GPU_OPS_MEDIAN_H

#include "gpu/ops/prologue.h"
#include "gpu/ops/pixel.h"
#include "gpu/plan/pass.h"

struct median {
    int size; /* 3 or 5 */
    struct prologue prologue;
};

#endif
