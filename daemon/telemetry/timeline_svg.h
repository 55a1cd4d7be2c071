/*
 * timeline_svg.h - writes the SVG of a timeline; only timeline.c calls it.
 *
 * The SVG needs no other file. It has light and dark colours: the browser's preference decides.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_TIMELINE_SVG_H
#define GPUIMGD_DAEMON_TELEMETRY_TIMELINE_SVG_H

#include "daemon/telemetry/trace.h"

struct timeline_scene {
    const struct trace_config *config;
    const struct trace_job *const *jobs; /* jobs that overlap the window, ordered by begin_ns */
    size_t job_count;    /* number of `jobs` */
    size_t jobs_kept;    /* jobs among which the window was chosen */
    uint64_t jobs_ended; /* jobs since the start */
    uint64_t begin_ns, end_ns; /* the window; at least one microsecond long */
};

/* Returns the SVG, which the caller frees; NULL: out of memory. */
char *timeline_svg_write(const struct timeline_scene *scene);

/* Compares two uint64_t, or structs that begin with one, for qsort. */
int timeline_by_time(const void *left, const void *right);

#endif
