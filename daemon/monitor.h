/*
 * monitor.h - takes a snapshot of the daemon once per second and publishes it.
 *
 * One function fills in the snapshot from all parts of the daemon. The monitor sends it to the HTTP
 * server (if metrics_listen is set), the heartbeat in Redis, the stats line and systemd's STATUS=.
 * Loop thread only.
 */
#pragma once

#include <uv.h>

#include "daemon/pipeline/pipeline.h"
#include "daemon/selfcheck/gpu_check.h"

struct monitor;

/* Opens the HTTP server, unless metrics_listen is "". The state is SNAPSHOT_STARTING. The options
 * must outlive the monitor. NULL: error has the reason. */
struct monitor *monitor_open(uv_loop_t *loop, const struct options *options, const char *daemon,
                             struct error *error) MUST_CHECK;
/* The totals to which the pipeline adds its jobs. */
struct metrics_totals *monitor_totals(struct monitor *monitor);
/* Sets the state SNAPSHOT_RUNNING and takes a snapshot of these parts once per second from now on.
 * gpu_check may be NULL. */
void monitor_start(struct monitor *monitor, struct engine *engine, struct workers *workers,
                   const struct gpu_check *gpu_check, struct pipeline *pipeline,
                   struct group *group);
/* Takes a snapshot now and publishes it, except to Redis and the stats line. */
void monitor_look(struct monitor *monitor);
/* Changes the state and publishes it at once. why: reason for SNAPSHOT_FAILED, else NULL. */
void monitor_set_state(struct monitor *monitor, enum snapshot_state state, const char *why);
/* Counts a sweep that removed so many temporary files. */
void monitor_swept(struct monitor *monitor, size_t removed);

void monitor_write_stats(struct monitor *monitor, bool even_idle);
/* Applies the options stats_interval_s and stats_log, and reopens the file. */
void monitor_reload(struct monitor *monitor);

/* Stops the HTTP server and removes its unix socket. Idempotent. */
void monitor_stop_http(struct monitor *monitor);
/* The monitor's timers must already be closed, with all handles of the loop. Takes NULL. */
void monitor_close(struct monitor *monitor);
