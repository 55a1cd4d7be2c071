/*
 * status_json.h - writes a snapshot as JSON, for the status page and for the heartbeat in Redis.
 *
 * Any thread. The page is the only reader of its document. queue/PROTOCOL.md documents the
 * heartbeat.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_STATUS_JSON_H
#define GPUIMGD_DAEMON_TELEMETRY_STATUS_JSON_H

#include <stdint.h>

#include "daemon/telemetry/snapshot.h"
#include "queue/job/writer.h"

/* Both return text that the caller frees; NULL: out of memory. now_ns: CLOCK_MONOTONIC. */
char *status_json_write(const struct snapshot *snapshot, uint64_t now_ns);
/* state: running, paused, draining or blocked. */
char *status_json_heartbeat(const struct snapshot *snapshot, const char *state);

/* Members that status.json and history.json share. */
void status_json_seconds(struct writer *writer, const char *key, double seconds);
void status_json_counts(struct writer *writer, const char *key,
                        const uint64_t counts[METRICS_BUCKETS + 1]);
void status_json_activity(struct writer *writer, const struct engine_activity *activity);

#endif
