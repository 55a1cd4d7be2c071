/* activity.c - keeps the union of time intervals per kind. */
#include "gpu/engine/activity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum status activity_open(struct activity *activity, struct error *error)
{
    memset(activity, 0, sizeof(*activity));
    for (int kind = 0; kind < ACTIVITY_KINDS; kind++) {
        activity->counted_to_s[kind] = -INFINITY;
        activity->spans[kind] = malloc(ACTIVITY_SPANS_MAX * sizeof(struct activity_span));
        if (!activity->spans[kind]) {
            activity_close(activity);
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the activity of a device");
        }
    }
    return STATUS_OK;
}

void activity_close(struct activity *activity)
{
    for (int kind = 0; kind < ACTIVITY_KINDS; kind++) {
        free(activity->spans[kind]);
        activity->spans[kind] = NULL;
        activity->count[kind] = 0;
    }
}

static int by_start(const void *left, const void *right)
{
    double a = ((const struct activity_span *)left)->start_s;
    double b = ((const struct activity_span *)right)->start_s;
    return (a > b) - (a < b);
}

static void activity_fold(struct activity *activity, int kind)
{
    struct activity_span *spans = activity->spans[kind];
    double end = activity->counted_to_s[kind];
    qsort(spans, activity->count[kind], sizeof(*spans), by_start);
    for (size_t i = 0; i < activity->count[kind]; i++) {
        if (spans[i].end_s <= end)
            continue;
        activity->sum_s[kind] += spans[i].end_s - (spans[i].start_s > end ? spans[i].start_s : end);
        end = spans[i].end_s;
    }
    activity->counted_to_s[kind] = end;
    activity->count[kind] = 0;
}

void activity_add(struct activity *activity, enum activity_kind kind, double start_s, double end_s)
{
    if (!(end_s > start_s))
        return;
    if (activity->count[kind] == ACTIVITY_SPANS_MAX) /* uncovered: gpu */
        activity_fold(activity, (int)kind);
    activity->spans[kind][activity->count[kind]++] = (struct activity_span){start_s, end_s};
}

void activity_take(struct activity *activity, struct engine_activity *total)
{
    for (int kind = 0; kind < ACTIVITY_KINDS; kind++)
        activity_fold(activity, kind);
    total->h2d_s += activity->sum_s[ACTIVITY_H2D];
    total->kernel_s += activity->sum_s[ACTIVITY_KERNEL];
    total->d2h_s += activity->sum_s[ACTIVITY_D2H];
    total->any_s += activity->sum_s[ACTIVITY_ANY];
    memset(activity->sum_s, 0, sizeof(activity->sum_s));
}
