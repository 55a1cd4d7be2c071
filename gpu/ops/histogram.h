/*
 * histogram.h - counts the 256 values of each channel, or of the gray.
 *
 * It is also the first step of the operations of gray_table.h, which keep the gray that is
 * counted.
 */
#pragma once

#include "gpu/ops/grayscale.h"

#define HISTOGRAM_BINS 256

struct histogram {
    bool of_gray; /* one row of counts; otherwise one per channel */
    struct grayscale gray;
};

static inline uint32_t histogram_planes(const struct histogram *histogram, uint32_t channels)
{
    return histogram->of_gray ? 1 : channels;
}

/* counts: HISTOGRAM_BINS per plane, overwritten. gray: receives the counted gray; NULL if it is not
 * needed, and always NULL for one channel. */
void histogram_count(const struct image *from, const struct histogram *histogram,
                     const struct image *gray, uint32_t *counts);
/* As histogram_count, in device memory. Enqueues and returns a cudaError_t. */
int histogram_count_cuda(const struct image *from, const struct histogram *histogram,
                         const struct image *gray, uint32_t *counts, struct CUstream_st *stream);
