/*
 * beacon.h - tells Redis each second what the daemon does, for gpuimgctl's status and top.
 *
 * Loop thread only. Counts are since the start, so that whoever looks twice knows the rates;
 * queue/PROTOCOL.md has the keys. While nothing moves it speaks as often as the name is renewed.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_BEACON_H
#define GPUIMGD_DAEMON_TELEMETRY_BEACON_H

#include <stdint.h>

#include "conf/options.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/telemetry/stats.h"
#include "gpu/engine/engine.h"
#include "queue/lease/queue.h"

struct beacon_parts {
    const struct options *options;
    struct engine *engine;
    struct stats *stats;
    struct pipeline *pipeline;
    struct queue *queue;
};

struct beacon {
    struct beacon_parts parts; /* borrowed */
    const char *state;         /* "running", "paused", "blocked", "draining"; static */
    uint64_t began_ns, told_ns;
    uint64_t told_jobs;        /* that had ended then */
    const char *told_state;
    bool moved;                /* there was something new then: the next one shows it at rest */
};

/* Milliseconds between calls of beacon_tell: what a person who watches takes for now. */
#define BEACON_MS 1000

void beacon_init(struct beacon *beacon, const struct beacon_parts *parts);
/* Publishes, if there is anything new or it is time. */
void beacon_tell(struct beacon *beacon);

#endif
