/*
 * timeline.h - draws the busiest moment of the daemon as an SVG image.
 *
 * It keeps the last TIMELINE_JOBS_MAX jobs and draws the time window in which workers and streams
 * were busiest. About TIMELINE_WINDOW_JOBS jobs end in the window.
 *
 * Not thread-safe: only the trace thread may call the functions while it runs. Before its start and
 * after its end, another thread may call them.
 */
#pragma once

#include "daemon/telemetry/trace.h"

/* Size of the ring of jobs: about 2.5 MiB. */
#define TIMELINE_JOBS_MAX 4096
/* As many jobs as a reader can tell apart in one image. */
#define TIMELINE_WINDOW_JOBS 64

struct timeline;

/* Writes an image without jobs, so that a wrong path fails at the start. `config` must outlive the
 * timeline, which the caller frees with free(). Errors: write_failed, out_of_memory. */
enum status timeline_open(const struct trace_config *config, struct timeline **timeline,
                          struct error *error) MUST_CHECK;
void timeline_add(struct timeline *timeline, const struct trace_job *job);
/* Replaces the image by renaming a complete new file over it. Logs errors. */
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

/* Returns the SVG, which the caller frees; NULL: out of memory. It needs no other file, and its
 * colours are light or dark, as the browser prefers. */
char *timeline_svg_write(const struct timeline_scene *scene);

/* Compares two uint64_t, or structs that begin with one, for qsort. */
int timeline_by_time(const void *left, const void *right);
