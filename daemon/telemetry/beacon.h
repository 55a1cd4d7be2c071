/*
 * beacon.h - the daemon's heartbeat in Redis, for gpuimgctl's status and top.
 *
 * Loop thread only. Called once a second; while nothing happens it publishes as often as the lease
 * is renewed. queue/PROTOCOL.md has the keys.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_BEACON_H
#define GPUIMGD_DAEMON_TELEMETRY_BEACON_H

#include "conf/options.h"
#include "daemon/telemetry/snapshot.h"
#include "queue/lease/queue.h"

/* All zero at the start. */
struct beacon {
    uint64_t told_ns;       /* of the last one, as are: */
    uint64_t told_jobs;     /* those that had ended */
    const char *told_state; /* static */
    bool moved;             /* it had news: the next one shows the daemon at rest */
};

/* Publishes if there are news, or if it is time. */
void beacon_tell(struct beacon *beacon, const struct snapshot *snapshot,
                 const struct options *options, struct queue *queue);

#endif
