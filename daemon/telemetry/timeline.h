/*
 * timeline.h - draws the busiest moment of the daemon as an SVG image.
 *
 * It keeps the last TIMELINE_JOBS_MAX jobs and draws the time window in which workers and streams
 * were busiest. About TIMELINE_WINDOW_JOBS jobs end in the window. The image has one row per worker
 * and per stream, and three rows per device: all uploads, all kernels and all downloads. Each job
 * gets the first free lane. Two curves below show the jobs in flight and the pinned memory in use.
 *
 * Not thread-safe: only the trace thread may call the functions while it runs. Before its start and
 * after its end, another thread may call them.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_TIMELINE_H
#define GPUIMGD_DAEMON_TELEMETRY_TIMELINE_H

#include "daemon/telemetry/trace.h"

/* Size of the ring of jobs: about 2 MiB. */
#define TIMELINE_JOBS_MAX 4096
/* As many jobs as a reader can tell apart in one image. */
#define TIMELINE_WINDOW_JOBS 64

struct timeline;

/* Writes an image without jobs, so that a wrong path fails at the start. `config` must outlive the
 * timeline. Errors: write_failed, out_of_memory. */
enum status timeline_open(const struct trace_config *config, struct timeline **timeline,
                          struct error *error) MUST_CHECK;
/* Copies the job into the ring. */
void timeline_add(struct timeline *timeline, const struct trace_job *job);
/* Replaces the image by renaming a complete new file over it. Logs errors. */
void timeline_draw(struct timeline *timeline);
void timeline_close(struct timeline *timeline); /* does not draw; accepts NULL */

#endif
