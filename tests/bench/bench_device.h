/*
 * bench_device.h - what bench_gpu measures beside the engine: bare copies and bare kernels.
 *
 * All on the first CUDA device, by events, after a warm-up. Every function returns a negative
 * number when a CUDA call fails, and says which.
 */
#ifndef GPUIMGD_TESTS_BENCH_DEVICE_H
#define GPUIMGD_TESTS_BENCH_DEVICE_H

#include "gpu/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

struct device_rates {
    double h2d, d2h;             /* GB/s, pinned, one way at a time */
    double both_h2d, both_d2h;   /* both ways at once */
    double copy;                 /* device to device, bytes read and written */
};

/* Where the host keeps pixels; managed memory is the device's too, and nothing is copied. */
enum bench_memory { BENCH_PINNED, BENCH_PAGEABLE, BENCH_MANAGED };

#ifdef GPUIMGD_CUDA
/* 0, or negative. */
int bench_device_rates(struct device_rates *rates);
/* Seconds for `jobs` copies of in_bytes to the device and as many of out_bytes back, both ways
 * at once, nothing else. */
double bench_copies_s(size_t in_bytes, size_t out_bytes, unsigned jobs);
/* Seconds for one job's passes alone: the median of rounds over at least 512 MB of buffers.
 * pixels: the plan's input; NULL: noise. lanes: on four streams in turn, where the end of one
 * kernel and the beginning of the next one overlap as they do in the daemon; else on one. */
double bench_kernels_s(const struct plan *plan, const uint8_t *pixels, bool lanes);
/* Seconds for one job at a time: the host writes the input, the passes run, the host reads the
 * result; the median. */
double bench_memory_s(const struct plan *plan, enum bench_memory kind);
/* Seconds for one device-to-device copy of so many bytes, by the same rounds. */
double bench_device_copy_s(size_t bytes, bool lanes);
/* Seconds for NPP's counterpart of the load of this name; 0 where NPP has none, or is not there. */
double bench_npp_s(const char *name, const struct plan *plan);
/* The same for cub::DeviceHistogram's histogram of each channel. */
double bench_cub_s(const struct plan *plan, const uint8_t *pixels);

/* What the two have in common: `launch` once on each of several sets of the plan's buffers, the
 * input at the beginning of each. launch returns 0, or negative. */
typedef int bench_launch(const struct plan *plan, uint8_t *base, void *context,
                         struct CUstream_st *stream);
double bench_rounds_s(const struct plan *plan, const uint8_t *pixels, bool lanes,
                      bench_launch *launch, void *context);
#else
static inline int bench_device_rates(struct device_rates *rates)
{
    (void)rates;
    return -1;
}
static inline double bench_copies_s(size_t in_bytes, size_t out_bytes, unsigned jobs)
{
    (void)in_bytes, (void)out_bytes, (void)jobs;
    return -1;
}
static inline double bench_kernels_s(const struct plan *plan, const uint8_t *pixels, bool lanes)
{
    (void)plan, (void)pixels, (void)lanes;
    return -1;
}
static inline double bench_memory_s(const struct plan *plan, enum bench_memory kind)
{
    (void)plan, (void)kind;
    return -1;
}
static inline double bench_device_copy_s(size_t bytes, bool lanes)
{
    (void)bytes, (void)lanes;
    return -1;
}
static inline double bench_npp_s(const char *name, const struct plan *plan)
{
    (void)name, (void)plan;
    return 0;
}
static inline double bench_cub_s(const struct plan *plan, const uint8_t *picture)
{
    (void)plan, (void)picture;
    return -1;
}
#endif

#ifdef __cplusplus
}
#endif
#endif
