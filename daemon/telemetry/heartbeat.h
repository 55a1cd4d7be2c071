/*
 * heartbeat.h - publishes the daemon's state to Redis, for gpuimgctl status and top.
 *
 * Loop thread only. The monitor calls it once per second. An idle daemon publishes only as often
 * as it renews leases (renew_s). queue/PROTOCOL.md documents the keys.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_HEARTBEAT_H
#define GPUIMGD_DAEMON_TELEMETRY_HEARTBEAT_H

#include "conf/options.h"
#include "daemon/telemetry/snapshot.h"
#include "queue/lease/queue.h"

/* All zero at the start. */
struct heartbeat {
    uint64_t sent_ns;       /* CLOCK_MONOTONIC of the last heartbeat */
    uint64_t sent_jobs;     /* ended jobs in the last heartbeat */
    const char *sent_state; /* in the last heartbeat; static */
    bool had_news;          /* the last heartbeat had news: send one more, without delay */
};

/* Publishes if the daemon is busy, if a value changed, or if renew_s has passed. Errors and a lack
 * of memory are ignored: the next call tries again. */
void heartbeat_publish(struct heartbeat *heartbeat, const struct snapshot *snapshot,
                       const struct options *options, struct queue *queue);

#endif
