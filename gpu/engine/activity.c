/* activity.c - measures how long a device was active, per kind; overlapping time counts once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/engine/engine_impl.h"

/* Intervals of one kind that are kept until activity_take: enough for ten seconds with 1,600 tasks
 * per second. If the table is full, activity_fold adds its intervals to the sum earlier. Time of
 * intervals that are added later is then counted only after the end of the summed intervals. */
#define SPANS_MAX 16384

struct activity_span {
    double start_s, end_s;
};

enum status activity_open(struct activity *activity, struct error *error)
{
    pthread_mutex_init(&activity->lock, NULL);
    activity->spans[0] = malloc(ACTIVITY_KINDS * SPANS_MAX * sizeof(struct activity_span));
    if (!activity->spans[0])
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the activity of a device");
    for (int kind = 0; kind < ACTIVITY_KINDS; kind++) {
        activity->spans[kind] = activity->spans[0] + kind * SPANS_MAX;
        activity->counted_to_s[kind] = -INFINITY;
    }
    return STATUS_OK;
}

void activity_close(struct activity *activity)
{
    if (!activity->spans[0])
        return;
    free(activity->spans[0]);
    activity->spans[0] = NULL;
    pthread_mutex_destroy(&activity->lock);
}

static int by_start(const void *left, const void *right)
{
    double a = ((const struct activity_span *)left)->start_s;
    double b = ((const struct activity_span *)right)->start_s;
    return (a > b) - (a < b);
}

/* Adds the length of the union of the kept intervals to the sum, and removes them. */
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
    pthread_mutex_lock(&activity->lock);
    if (activity->count[kind] == SPANS_MAX) /* uncovered: gpu */
        activity_fold(activity, (int)kind);
    activity->spans[kind][activity->count[kind]++] = (struct activity_span){start_s, end_s};
    pthread_mutex_unlock(&activity->lock);
}

void activity_count(struct activity *activity, uint64_t h2d_bytes, uint64_t d2h_bytes,
                    uint64_t tasks)
{
    pthread_mutex_lock(&activity->lock);
    activity->h2d_bytes += h2d_bytes;
    activity->d2h_bytes += d2h_bytes;
    activity->tasks += tasks;
    activity->turns++;
    pthread_mutex_unlock(&activity->lock);
}

void activity_take(struct activity *activity, struct engine_activity *total)
{
    pthread_mutex_lock(&activity->lock);
    for (int kind = 0; kind < ACTIVITY_KINDS; kind++)
        activity_fold(activity, kind);
    total->h2d_s += activity->sum_s[ACTIVITY_H2D];
    total->kernel_s += activity->sum_s[ACTIVITY_KERNEL];
    total->d2h_s += activity->sum_s[ACTIVITY_D2H];
    total->any_s += activity->sum_s[ACTIVITY_ANY];
    total->h2d_bytes += activity->h2d_bytes;
    total->d2h_bytes += activity->d2h_bytes;
    total->turns += activity->turns;
    total->tasks += activity->tasks;
    memset(activity->sum_s, 0, sizeof(activity->sum_s));
    activity->h2d_bytes = activity->d2h_bytes = activity->turns = activity->tasks = 0;
    pthread_mutex_unlock(&activity->lock);
}
