/*
 * status_json.h - a snapshot as JSON: for the status page, whose form it follows, and for the
 * heartbeat in Redis (queue/PROTOCOL.md), which gpuimgctl reads.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_STATUS_JSON_H
#define GPUIMGD_DAEMON_TELEMETRY_STATUS_JSON_H

#include <stdint.h>

#include "daemon/telemetry/snapshot.h"
#include "queue/job/writer.h"

/* Both malloc'd; NULL when memory is short. Any thread. now_ns: CLOCK_MONOTONIC. */
char *status_json_write(const struct snapshot *snapshot, uint64_t now_ns);
/* state: one of those that PROTOCOL.md names. */
char *status_json_heartbeat(const struct snapshot *snapshot, const char *state);

/* Members that several documents have. */
void status_json_seconds(struct writer *writer, const char *key, double seconds);
void status_json_counts(struct writer *writer, const char *key,
                        const uint64_t counts[METRICS_BUCKETS + 1]);
void status_json_activity(struct writer *writer, const struct engine_activity *activity);

#endif
