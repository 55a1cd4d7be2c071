/* overview.h - a snapshot of the queue, the leases and the daemons, read from Redis. gpuimgctl
 * status and top show it. One thread. */
#pragma once

#include <cjson/cJSON.h>

#include "conf/limits.h"
#include "queue/ctl/client.h"
#include "queue/job/instance.h"

#define OVERVIEW_ATTEMPTS 8

struct overview_daemon {
    char instance[INSTANCE_BYTES_MAX];
    char name[INSTANCE_BYTES_MAX]; /* "host:pid" */
    double left_s;                 /* until its registration expires, unless it renews it */
    long long leases;
    cJSON *stats;                  /* its last published statistics (PROTOCOL.md), or NULL */
};

/* The counts of jobs and results; EXPIRED: expired leases that no REAP has taken yet. */
enum overview_count {
    OVERVIEW_WAITING, OVERVIEW_LEASED, OVERVIEW_EXPIRED, OVERVIEW_DELAYED, OVERVIEW_ALONE,
    OVERVIEW_DEAD, OVERVIEW_RESULTS, OVERVIEW_COUNTS
};

struct overview {
    long long counts[OVERVIEW_COUNTS];
    long long waiting[JOB_PRIORITIES]; /* of OVERVIEW_WAITING, the jobs of each priority */
    double oldest_s;      /* age of the next job; negative: unknown, it has no `pushed` */
    bool paused;
    double paused_s;      /* time left of the pause; negative: no limit */
    double next_s;        /* until the next delayed job; negative: none */
    long long attempts[OVERVIEW_ATTEMPTS]; /* leased jobs: [0] unknown, [n] on attempt n; the last
                                              element also counts later attempts */
    char alone_owner[INSTANCE_BYTES_MAX]; /* the daemon that runs jobs alone; "": none */
    struct overview_daemon *daemons;
    size_t daemon_count;
};

/* Reads a snapshot. Only `details` reads the leases and the next jobs, at one command per lease.
 * Returns false if Redis does not reply (client_why); otherwise the caller calls
 * overview_clear. */
bool overview_read(struct overview *overview, struct client *client, const char *ns, bool details);
void overview_clear(struct overview *overview); /* idempotent */

/* The snapshot as JSON, owned by the caller; NULL if out of memory. It refers to the snapshot's
 * stats, so delete it before overview_clear. */
cJSON *overview_json(const struct overview *overview);
