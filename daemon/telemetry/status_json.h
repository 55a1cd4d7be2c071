/*
 * status_json.h - writes snapshots as JSON, for the status page and for the heartbeat in Redis.
 *
 * The status page reads two documents: the latest snapshot (/status.json) and the last two minutes
 * (/history.json). Their keys are not documented, because only the page reads them. The heartbeat
 * is documented in queue/PROTOCOL.md. Any thread.
 */
#pragma once

#include "daemon/telemetry/snapshot.h"

/* Returns /status.json, which the caller frees; NULL: out of memory. now_ns: CLOCK_MONOTONIC. */
char *status_json_write(const struct snapshot *snapshot, uint64_t now_ns);
/* Returns the heartbeat, which the caller frees; NULL: out of memory. state: running, paused,
 * draining or blocked. */
char *status_json_heartbeat(const struct snapshot *snapshot, const char *state);

/* Two minutes with one snapshot per second. status.html has the same number (KEPT). */
#define HISTORY_SAMPLES 121

/* The last snapshots, from which the status page draws its charts when it is opened. */
struct history {
    struct snapshot samples[HISTORY_SAMPLES]; /* ring: the next goes to [count % HISTORY_SAMPLES] */
    uint64_t count;
};

/* Adds a snapshot. If the last one was taken less than 0.5 s before, it is replaced: snapshots are
 * also taken when the daemon's state changes, and the history should cover two minutes all the
 * same. */
void history_add(struct history *history, const struct snapshot *snapshot);

/* Returns /history.json: {"samples":[...]}, oldest first. A sample has some of the keys of
 * /status.json. The caller frees the text; NULL: out of memory. */
char *history_json_write(const struct history *history);
