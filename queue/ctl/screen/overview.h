/* overview.h - reads a snapshot of one shard from Redis: its jobs, leases and daemons.
 *
 * gpuimgctl status and top show it. One thread. */
#pragma once

#include <cjson/cJSON.h>

#include "conf/limits.h"
#include "queue/ctl/client.h"
#include "queue/job/instance.h"

/* Elements of overview.attempts. */
#define OVERVIEW_ATTEMPTS 8

struct overview_daemon {
    char instance[INSTANCE_BYTES_MAX];
    char name[INSTANCE_BYTES_MAX]; /* "host:pid" */
    double left_s; /* until its name in NS:inst expires, unless it renews the name */
    long long leases;
    cJSON *stats; /* the statistics that it published last (PROTOCOL.md), or NULL */
};

/* Indexes of overview.counts. EXPIRED: expired leases that no daemon has reaped yet. */
enum overview_count {
    OVERVIEW_WAITING, OVERVIEW_LEASED, OVERVIEW_EXPIRED, OVERVIEW_DELAYED, OVERVIEW_ALONE,
    OVERVIEW_DEAD, OVERVIEW_RESULTS, OVERVIEW_COUNTS
};

struct overview {
    long long counts[OVERVIEW_COUNTS];
    long long waiting[JOB_PRIORITIES]; /* jobs in NS:jobs:0 to NS:jobs:9 */
    double queue_oldest_s; /* the daemons' upper bound of the age of the oldest waiting job;
                              negative: unknown */
    double oldest_s; /* age of the job that is next; negative: unknown, no `pushed` in the job */
    bool paused;
    double paused_s;      /* time left of the pause; negative: no limit */
    double next_s;        /* until the next delayed job is due; negative: there is none */
    long long attempts[OVERVIEW_ATTEMPTS]; /* leased jobs: [n] on attempt n, [0] on an unknown one;
                                              the last element also counts later attempts */
    char alone_owner[INSTANCE_BYTES_MAX]; /* daemon with the right to run jobs alone; "": none */
    struct overview_daemon *daemons;
    size_t daemon_count;
};

/* Reads a snapshot. details: also reads the leases, with one command for each, and the next job;
 * else `attempts` and oldest_s stay unknown. Returns false if Redis does not reply (client_why);
 * otherwise call overview_clear later. */
bool overview_read(struct overview *overview, struct client *client, const char *ns, bool details);
void overview_clear(struct overview *overview); /* idempotent */

/* Returns the snapshot as JSON, owned by the caller; NULL if memory is short. The JSON refers to
 * the statistics of the daemons, so delete it before overview_clear. */
cJSON *overview_json(const struct overview *overview);
