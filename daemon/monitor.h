/*
 * monitor.h - takes a snapshot of the daemon's state once per second and publishes it.
 *
 * One function collects the state from all parts of the daemon (struct snapshot). The monitor
 * publishes it over HTTP (if metrics_listen is set), as the heartbeat in Redis, as the stats line
 * in the log, and as the status that systemd shows. Loop thread only.
 */
#pragma once

#include <uv.h>

#include "daemon/pipeline/pipeline.h"
#include "daemon/selfcheck/gpu_check.h"

struct monitor;

/* Opens the HTTP server, unless metrics_listen is "". The state is SNAPSHOT_STARTING. daemon: the
 * daemon's name. The options must outlive the monitor. NULL: error has the reason. */
struct monitor *monitor_open(uv_loop_t *loop, const struct options *options, const char *daemon,
                             struct error *error) MUST_CHECK;
/* The counters that the pipeline increases when jobs end. */
struct metrics_totals *monitor_totals(struct monitor *monitor);
struct tags *monitor_tags(struct monitor *monitor);
/* Sets the state SNAPSHOT_RUNNING. From now on, takes a snapshot of these parts once per second.
 * gpu_check may be NULL. */
void monitor_start(struct monitor *monitor, struct engine *engine, struct workers *workers,
                   const struct gpu_check *gpu_check, struct pipeline *pipeline,
                   struct group *group);
/* Takes a snapshot now and publishes it over HTTP and to systemd, but not as a heartbeat or a stats
 * line. */
void monitor_look(struct monitor *monitor);
/* Changes the state and publishes it at once. why: reason for SNAPSHOT_FAILED, else NULL. */
void monitor_set_state(struct monitor *monitor, enum snapshot_state state, const char *why);
/* Counts a sweep (a search for temporary files of dead daemons), which removed `removed` files. */
void monitor_swept(struct monitor *monitor, size_t removed);

/* Writes a stats line. even_idle: also if stats_line() finds that the line may be dropped. */
void monitor_write_stats(struct monitor *monitor, bool even_idle);
/* Applies the options stats_interval_s and stats_log, and opens the file of stats_log again. */
void monitor_reload(struct monitor *monitor);

/* The HTTP server reads the fleet no more: call it before the group is destroyed. Takes NULL. */
void monitor_stop_fleet(struct monitor *monitor);
/* Stops the HTTP server and removes its unix socket. Idempotent. */
void monitor_stop_http(struct monitor *monitor);
/* Frees the monitor. Call it after all handles of the loop are closed. Takes NULL. */
void monitor_close(struct monitor *monitor);
