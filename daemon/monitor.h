/*
 * monitor.h - takes a snapshot of the daemon each second and shows it everywhere.
 *
 * Loop thread only. One function fills the snapshot in, from all parts of the daemon; it then goes
 * to http/server.c (if metrics_listen is set), to the heartbeat in Redis, to the stats line and to
 * systemd's STATUS=.
 */
#ifndef GPUIMGD_DAEMON_MONITOR_H
#define GPUIMGD_DAEMON_MONITOR_H

#include <stdbool.h>

#include <uv.h>

#include "conf/options.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/pipeline/workers.h"
#include "daemon/selfcheck/gpu_check.h"
#include "daemon/telemetry/snapshot.h"
#include "gpu/engine/engine.h"
#include "queue/lease/queue.h"

struct monitor;

/* What is looked at; borrowed. */
struct monitor_parts {
    struct engine *engine;
    struct workers *workers;
    struct gpu_check *gpu_check; /* or NULL */
    struct pipeline *pipeline;
    struct queue *queue;
};

/* Serves from here on, as SNAPSHOT_STARTING, unless metrics_listen is "". The options must stay.
 * NULL with a sentence in error. */
struct monitor *monitor_open(uv_loop_t *loop, const struct options *options, const char *daemon,
                             struct error *error) MUST_CHECK;
/* Where the pipeline counts. */
struct metrics_totals *monitor_totals(struct monitor *monitor);
/* The parts are there: SNAPSHOT_RUNNING, and a snapshot each second. */
void monitor_start(struct monitor *monitor, const struct monitor_parts *parts);
/* Takes a snapshot now and shows it. */
void monitor_look(struct monitor *monitor);
/* Where the daemon stands, shown at once. why: of SNAPSHOT_FAILED, else NULL. */
void monitor_set_state(struct monitor *monitor, enum snapshot_state state, const char *why);
/* Temporary files of other daemons were looked for, and so many removed. */
void monitor_swept(struct monitor *monitor, size_t removed);

/* Writes the stats line now, even if the daemon is idle. */
void monitor_write_stats(struct monitor *monitor);
/* Follows the options stats_interval_s and stats_log, whose file is opened anew. */
void monitor_reload(struct monitor *monitor);

/* The loop's handles, of which the monitor has some, are closed by then. Takes NULL. */
void monitor_close(struct monitor *monitor);

#endif
