/* alone.h - the right of a daemon to run jobs on their last attempt, one at a time, without others.
 * At most one queue of a group has it. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

struct alone {
    bool has;            /* this daemon has the right in the queue */
    uint64_t claim_serial; /* fetch.serial of the last FETCH that may claim the right, or use it */
};

/* Of the group. Times of uv_now. */
struct alone_shared {
    uint64_t since_ms; /* when a queue got the right */
    uint64_t rest_ms;  /* no queue claims the right before this time */
    unsigned taken;    /* jobs alone since a queue got the right */
};

/* Whether a job of the queue runs alone. */
bool alone_runs(const struct queue *queue);
/* Whether another shard has the right to run jobs alone. A shard that is away has it only while
 * such a job runs. */
bool alone_is_other(const struct queue *queue);
/* Whether the next FETCH of the queue may claim the right, or use it again. */
bool alone_may_claim(const struct queue *queue);
/* RENEW replied that this daemon has not the right. */
void alone_expired(struct queue *queue);
/* FETCH replied if this daemon has the right, with so many jobs. An older right of a shard that was
 * away meanwhile ends. */
void alone_note(struct queue *queue, bool alone, size_t taken);
