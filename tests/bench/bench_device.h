/*
 * bench_device.h - times single copies and kernels on the first CUDA device, without the engine.
 *
 * All times come from CUDA events after a warm-up. A function returns a negative number if a CUDA
 * call fails, and prints the name of that call.
 */
#pragma once

#include "gpu/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct engine;

struct device_rates {
    double h2d, d2h;             /* GB/s, pinned, one direction at a time */
    double both;                 /* each direction, both at the same time */
    double copy;                 /* device to device, bytes read and written */
};

/* Returns 0, or a negative number. */
int bench_device_rates(struct device_rates *rates);
/* Returns the seconds for `jobs` uploads of in_bytes and as many downloads of out_bytes, in both
 * directions at the same time. */
double bench_copies_s(size_t in_bytes, size_t out_bytes, unsigned jobs);
/* Returns the seconds for the passes of one job: the median of rounds over at least 512 MB of
 * buffers. `pixels` is the plan's input, or NULL for noise. With `lanes`, four streams take turns,
 * so that the end of one kernel overlaps with the start of the next as in the daemon. */
double bench_kernels_s(const struct plan *plan, const uint8_t *pixels, bool lanes);
/* As bench_kernels_s with noise, per job of a batch of `jobs` whose joint passes share launches. */
double bench_batches_s(const struct plan *plan, unsigned jobs, bool lanes);
/* Returns the seconds for one device-to-device copy, by the same rounds as bench_kernels_s. */
double bench_device_copy_s(size_t bytes, bool lanes);

/* bench_reads.cu: prints what reads of a table cost by the table's memory and the pattern of the
 * addresses. Returns 0, or a negative number. */
int bench_reads(void);
/* resizes.c: prints the times of resizing to one or several sizes. Returns 0, or a negative
 * number. copy: device to device, in GB/s. */
int bench_resize(double copy);
/* resizes.c: the same on the CPU engine, on the calling thread. */
int bench_resize_cpu(struct engine *engine);
#ifdef __cplusplus
}
#endif
