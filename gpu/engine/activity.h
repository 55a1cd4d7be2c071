/*
 * activity.h - measures for how long copies and kernels kept a device busy.
 *
 * Each device has one struct activity. Intervals are added in the order in which tasks end, and
 * may overlap. They are folded into sums by activity_take, or earlier if the table is full. Each
 * sum is the length of the union of the intervals, so that no time is counted twice. Not
 * thread-safe: the caller locks.
 */
#ifndef GPUIMGD_GPU_ENGINE_ACTIVITY_H
#define GPUIMGD_GPU_ENGINE_ACTIVITY_H

#include <stddef.h>

#include "gpu/engine/engine.h"

/* Enough for ten seconds at 1,600 tasks per second between two calls of activity_take. A full table
 * is folded, so nothing is lost. */
#define ACTIVITY_SPANS_MAX 16384

enum activity_kind { ACTIVITY_H2D, ACTIVITY_KERNEL, ACTIVITY_D2H, ACTIVITY_ANY, ACTIVITY_KINDS };

struct activity_span {
    double start_s, end_s;
};

struct activity {
    struct activity_span *spans[ACTIVITY_KINDS];
    size_t count[ACTIVITY_KINDS];
    double counted_to_s[ACTIVITY_KINDS];
    double sum_s[ACTIVITY_KINDS];
};

enum status activity_open(struct activity *activity, struct error *error) MUST_CHECK;
void activity_close(struct activity *activity); /* idempotent */
/* Times are seconds on one clock of the caller's choice. An empty or reversed interval is
 * ignored. */
void activity_add(struct activity *activity, enum activity_kind kind, double start_s,
                  double end_s);
/* Adds the sums since the last call to `total` and resets them. */
void activity_take(struct activity *activity, struct engine_activity *total);

#endif
