/*
 * activity.h - how long copies and kernels ran, alone and together: unions of intervals.
 *
 * One for each device. Intervals come in the order in which tasks end, overlap freely, and are
 * folded into sums when they are asked for or when the table is full. Time that was counted once
 * is not counted again. Not locked.
 */
#ifndef GPUIMGD_GPU_ENGINE_ACTIVITY_H
#define GPUIMGD_GPU_ENGINE_ACTIVITY_H

#include <stddef.h>

#include "gpu/engine/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ten seconds at 1,600 tasks a second between two calls of activity_take; more are folded. */
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
/* Seconds on any one clock; an empty or reversed interval is ignored. */
void activity_add(struct activity *activity, enum activity_kind kind, double start_s,
                  double end_s);
/* Adds the sums since the last call to `total`, and starts anew. */
void activity_take(struct activity *activity, struct engine_activity *total);

#ifdef __cplusplus
}
#endif
#endif
