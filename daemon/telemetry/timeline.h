/*
 * timeline.h - draws when workers and devices worked on which job, as an SVG image.
 *
 * The timeline keeps the last TIMELINE_JOBS_MAX jobs. It draws a window of time in which about
 * TIMELINE_WINDOW_JOBS jobs end: the window in which workers and streams were busiest.
 *
 * Not thread-safe: trace.c calls all functions on its thread, or before that thread starts and
 * after it has ended.
 */
#pragma once

#include "daemon/telemetry/trace.h"

/* They take about 2.5 MiB. */
#define TIMELINE_JOBS_MAX 4096
/* As many jobs as a reader can tell apart in one image. */
#define TIMELINE_WINDOW_JOBS 64

struct timeline;

/* Creates a timeline, which the caller frees with free(). Writes an image without jobs, so that a
 * wrong path is found at the start. `config` must outlive the timeline. Errors: write_failed,
 * out_of_memory. */
enum status timeline_open(const struct trace_config *config, struct timeline **timeline,
                          struct error *error) MUST_CHECK;
void timeline_add(struct timeline *timeline, const struct trace_job *job);
/* Writes the image to a new file and renames it over the old one. Logs errors. */
void timeline_draw(struct timeline *timeline);

/* ---- timeline_svg.c: the image of a window -------------------------------------------------- */

struct timeline_scene {
    const struct trace_config *config;
    const struct trace_job *const *jobs; /* jobs that overlap the window, ordered by begin_ns */
    size_t job_count;    /* number of `jobs` */
    size_t jobs_kept;    /* jobs among which the window was chosen */
    uint64_t jobs_ended; /* jobs since the start */
    uint64_t begin_ns, end_ns; /* the window; at least one microsecond long */
};

/* Returns the SVG, which the caller frees; NULL: out of memory. It refers to no other file, and
 * follows the browser's light or dark mode. */
char *timeline_svg_write(const struct timeline_scene *scene);

/* Compares two uint64_t, or structs that begin with one, for qsort. */
int timeline_by_time(const void *left, const void *right);
