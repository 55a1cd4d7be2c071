/*
 * histogram.h - how often each of the 256 values stands in each channel, or in the gray.
 *
 * Also the first step of operations that make a table out of the counts (gray_table.h), which at
 * the same time keep the gray that was counted.
 */
#ifndef GPUIMGD_GPU_OPS_HISTOGRAM_H
#define GPUIMGD_GPU_OPS_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/ops/grayscale.h"
#include "gpu/plan/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HISTOGRAM_BINS 256

struct histogram {
    bool of_gray; /* one row of counts; else one a channel */
    struct grayscale gray;
};

static inline uint32_t histogram_planes(const struct histogram *histogram, uint32_t channels)
{
    return histogram->of_gray ? 1 : channels;
}

extern const struct pass_type pass_histogram;

/* counts: HISTOGRAM_BINS a plane, overwritten. gray: the gray that was counted goes there; NULL:
 * nobody needs it (always so for one channel). */
void histogram_count(const struct image *from, const struct histogram *histogram,
                     const struct image *gray, uint32_t *counts);
/* The same in device memory. Returns a cudaError_t. */
int histogram_count_cuda(const struct image *from, const struct histogram *histogram,
                         const struct image *gray, uint32_t *counts, struct CUstream_st *stream);

pass_cuda histogram_cuda;

#ifdef __cplusplus
}
#endif
#endif
