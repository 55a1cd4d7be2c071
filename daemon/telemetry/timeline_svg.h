/*
 * timeline_svg.h - draws a timeline's window; private to it. The SVG stands by itself, and is
 * legible on light and dark ground, as the one who looks at it has chosen.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_TIMELINE_SVG_H
#define GPUIMGD_DAEMON_TELEMETRY_TIMELINE_SVG_H

#include <stdio.h>

#include "daemon/telemetry/trace.h"

struct timeline_scene {
    const struct trace_config *config;
    const struct trace_job *const *jobs; /* those that touch the window, by their begin */
    size_t job_count, jobs_kept;
    uint64_t jobs_ended;
    uint64_t begin_ns, end_ns;           /* of the window; one microsecond at least */
};

/* false: errno says why. */
bool timeline_svg_write(const struct timeline_scene *scene, FILE *file);

#endif
