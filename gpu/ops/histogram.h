/*
 * histogram.h - counts how often each of the 256 values occurs in each channel, or in the gray.
 *
 * The operations of gray_table.h use it, too, and also store the gray that is counted.
 */
#pragma once

#include "gpu/ops/grayscale.h"

#define HISTOGRAM_BINS 256

struct histogram {
    bool of_gray; /* counts gray; otherwise each channel */
    bool zero;    /* no padding: pass.h */
    struct grayscale gray;
};

/* Number of histograms. */
static inline uint32_t histogram_planes(const struct histogram *histogram, uint32_t channels)
{
    return histogram->of_gray ? 1 : channels;
}

/* Counts the pixels of `from` on the CPU. counts: receives HISTOGRAM_BINS counts per histogram.
 * gray: receives the gray of a colour image, if of_gray; NULL: it is not needed. */
void histogram_count(const struct image *from, const struct histogram *histogram,
                     const struct image *gray, uint32_t *counts);
/* As histogram_count, with images and counts in device memory. Only enqueues the work. Returns a
 * cudaError_t. */
int histogram_count_cuda(const struct image *from, const struct histogram *histogram,
                         const struct image *gray, uint32_t *counts, struct CUstream_st *stream);
