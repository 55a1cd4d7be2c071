/*
 * overview.h - what stands in Redis at one moment: the queue, the leases, the daemons and what
 * they say of themselves.
 */
#ifndef GPUIMGD_QUEUE_CTL_SCREEN_OVERVIEW_H
#define GPUIMGD_QUEUE_CTL_SCREEN_OVERVIEW_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "queue/ctl/client.h"
#include "queue/job/instance.h"

#define OVERVIEW_ATTEMPTS 8

struct overview_daemon {
    char instance[INSTANCE_BYTES_MAX];
    char name[INSTANCE_BYTES_MAX]; /* "host:pid" */
    double left_s;                 /* until its name ends, unless it renews it */
    long long leases;
    cJSON *stats;                  /* what it published last, or NULL (PROTOCOL.md) */
};

struct overview {
    long long waiting, delayed, alone, leased, dead, results;
    double oldest_s;      /* age of the job that is next, where it says when it was pushed; else
                             negative */
    bool paused;
    double paused_s;      /* for so long; negative: until somebody ends it */
    double next_s;        /* until the next delayed job; negative: none */
    long long attempts[OVERVIEW_ATTEMPTS]; /* of leased jobs: [0] unknown, [n] on attempt n; the
                                              last: on that one or a later one */
    long long expired;    /* leases whose time is over, until a REAP takes them */
    char alone_owner[INSTANCE_BYTES_MAX]; /* "" where nobody runs jobs alone */
    struct overview_daemon *daemons;
    size_t daemon_count;
};

/* Leases are looked at only for `details`, which cost a command each. false: Redis does not answer,
 * client_why says why; otherwise overview_clear is due. */
bool overview_read(struct overview *overview, struct client *client, const char *ns, bool details);
void overview_clear(struct overview *overview); /* idempotent */

/* All of it as JSON; NULL when memory is short. */
cJSON *overview_json(const struct overview *overview);

/* "host:pid" of INST. */
void overview_daemon_name(const char *instance, char *name, size_t size);

#endif
