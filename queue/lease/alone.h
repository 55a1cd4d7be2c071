/* alone.h - the right of a daemon to run jobs alone: one at a time, and without any other job.
 *
 * A job whose earlier attempts may have killed a daemon runs its last attempt alone, so that no
 * other job loses an attempt if it kills the daemon again. These jobs wait in NS:alone. One daemon
 * per namespace gets the right from Redis, with the key NS:alone:owner. Of the queues of a group,
 * at most one that is not away has it. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

struct alone {
    bool has;              /* this daemon has the right for the queue's namespace */
    uint64_t claim_serial; /* fetch.serial of the last FETCH that could claim or use the right */
};

/* What the queues of a group share. Times of uv_now. */
struct alone_shared {
    uint64_t since_ms; /* when a queue last got the right */
    uint64_t rest_ms;  /* no queue claims the right before this time: other jobs run */
    unsigned taken;    /* jobs of NS:alone that were fetched since since_ms */
};

/* Whether a job of this queue is running alone. */
bool alone_runs(const struct queue *queue);
/* Whether another shard has the right. A shard that is away counts only while it runs a job
 * alone. */
bool alone_is_other(const struct queue *queue);
/* Whether the next FETCH of the queue may claim the right or, if the queue has it, use it again. */
bool alone_may_claim(const struct queue *queue);
/* Call if RENEW replied that this daemon does not have the right. */
void alone_expired(struct queue *queue);
/* Call after each FETCH. alone: the daemon has the right; taken: jobs in the reply. If the right is
 * new, a right that another shard got before it was away ends. */
void alone_note(struct queue *queue, bool alone, size_t taken);
