/*
 * timeline.h - a picture (SVG) of the time in which workers and streams had most to do.
 *
 * Of the jobs that ended last so many are kept; of their time a window is drawn that holds as many
 * jobs as one can tell apart: the one in which workers and streams together were busiest. A row
 * for each worker, for each stream, for all copies and kernels of a device together, and for the
 * jobs; below them the jobs in flight and the pinned memory in use. One thread at a time.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_TIMELINE_H
#define GPUIMGD_DAEMON_TELEMETRY_TIMELINE_H

#include "daemon/telemetry/trace.h"

/* Jobs that are kept: 2 MiB. */
#define TIMELINE_JOBS_MAX 4096
/* Jobs of a window, unless that many have not ended yet. */
#define TIMELINE_WINDOW_JOBS 64

struct timeline;

/* Writes a picture without jobs, so that a place that cannot be written is found out at once. The
 * config must stay. write_failed, out_of_memory. */
enum status timeline_open(const struct trace_config *config, struct timeline **timeline,
                          struct error *error) MUST_CHECK;
void timeline_add(struct timeline *timeline, const struct trace_job *job);
/* Writes the picture anew: aside, and then into its place. What fails is said in the log. */
void timeline_draw(struct timeline *timeline);
void timeline_close(struct timeline *timeline); /* draws nothing; takes NULL */

#endif
