/*
 * status_json.h - writes snapshots as JSON, for the status page and for the heartbeat in Redis.
 *
 * Any thread. The page is the only reader of its two documents. queue/PROTOCOL.md documents the
 * heartbeat.
 */
#pragma once

#include "daemon/telemetry/snapshot.h"

/* Both return text that the caller frees; NULL: out of memory. now_ns: CLOCK_MONOTONIC. */
char *status_json_write(const struct snapshot *snapshot, uint64_t now_ns);
/* state: running, paused, draining or blocked. */
char *status_json_heartbeat(const struct snapshot *snapshot, const char *state);

/* Two minutes with one snapshot per second. status.html has the same number (KEPT). */
#define HISTORY_SAMPLES 121

/* The status page draws its charts from these snapshots when it is opened. */
struct history {
    struct snapshot samples[HISTORY_SAMPLES]; /* a ring; [count % SAMPLES] is next */
    uint64_t count;
};

/* Adds a snapshot. It replaces one within the last 0.5 s (a change of state), so that the history
 * always covers two minutes. */
void history_add(struct history *history, const struct snapshot *snapshot);

/* Returns {"samples":[...]}, oldest first. The keys of a sample are a subset of status.json's. The
 * caller frees the text; NULL: out of memory. */
char *history_json_write(const struct history *history);
