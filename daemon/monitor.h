/*
 * monitor.h - fills the snapshot of metrics in, each second, and hands it to server.c.
 *
 * Loop thread only. There is one where metrics_listen is set; all functions take NULL and do
 * nothing then, so that nothing is counted or timed for nobody.
 */
#ifndef GPUIMGD_DAEMON_MONITOR_H
#define GPUIMGD_DAEMON_MONITOR_H

#include <stdbool.h>

#include <uv.h>

#include "conf/options.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/pipeline/workers.h"
#include "daemon/selfcheck/canary.h"
#include "daemon/telemetry/metrics.h"
#include "daemon/telemetry/stats.h"
#include "gpu/engine/engine.h"
#include "queue/lease/queue.h"

struct monitor;

/* What is looked at; borrowed. */
struct monitor_parts {
    const struct options *options;
    struct engine *engine;
    struct workers *workers;
    struct canary *canary; /* or NULL */
    struct stats *stats;
    struct pipeline *pipeline;
    struct queue *queue;
};

/* Serves from here on, as METRICS_STARTING. *monitor is NULL where metrics_listen is "". false with
 * a sentence in error. */
bool monitor_open(struct monitor **monitor, uv_loop_t *loop, const struct options *options,
                  const char *daemon, struct error *error) MUST_CHECK;
/* The parts are there: METRICS_RUNNING, counts from here on, and looks each second. */
void monitor_watch(struct monitor *monitor, const struct monitor_parts *parts);
/* Where the daemon stands; shown at once if it is another state than before. why: of
 * METRICS_FAILED, else NULL. Not before monitor_watch. */
void monitor_set_state(struct monitor *monitor, enum metrics_state state, const char *why);
/* Temporary files of other daemons were looked for, and so many removed. */
void monitor_swept(struct monitor *monitor, size_t removed);
/* Whoever closes the loop's handles has closed its timer by then. */
void monitor_close(struct monitor *monitor);

#endif
