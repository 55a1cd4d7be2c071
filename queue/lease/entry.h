/* entry.h - the leases of a queue, from FETCH until Redis has acknowledged their end.
 *
 * A lease that Redis has not acknowledged is in entries.all and on one other list: while the
 * daemon runs the job, entries.running; after the daemon has ended the lease, the list
 * outbox->waiting, and then outbox->sent until Redis has answered. Loop thread only. */
#pragma once

#include <hiredis/hiredis.h>

#include "queue/job/job.h"
#include "queue/lease/queue.h"

enum end_kind { END_DONE, END_RETRY, END_BACK, END_LATER };

/* A lease with the queue's private data; lease->pending points to it. */
struct entry {
    struct lease lease;
    struct list_node in_all; /* entries.all */
    struct queue *queue;
    enum end_kind kind;
    bool internal;      /* not known to the daemon: no event is sent for it */
    bool sent_before;   /* an earlier call had no reply: Redis may have run it */
    bool doubtful;      /* and may have broken the connection: it is sent alone (isolate.c) */
    unsigned cuts;      /* connections that broke, or refusals, while it was sent alone */
    bool unique;
    bool ended_by_start; /* START ended the lease in Redis; no call is needed */
    struct ask *ask;    /* the pending START question, or NULL */
    char *result, *id, *reply_to;
    bool reply_denied;  /* an ACL denies the reply_to key */
    uint32_t values_denied; /* bit i: an ACL denies the key of values[i] */
    bool reply_dropped; /* reply_to was denied: post the result even if `results` is none */
    struct queue_value *values;
    size_t value_count, bytes;
};

struct entries {
    struct list all, running;
};

static inline struct entry *entry_of(struct list_node *node)
{
    return container_of(node, struct entry, lease.node);
}

/* Returns NULL if memory is short. */
struct entry *entry_new(struct queue *queue);
/* The same, with number, attempt and text at `index` of a reply. Takes the text out of the reply.
 * Also returns NULL if the reply has another form. */
struct entry *entry_from_reply(struct queue *queue, redisReply *reply, size_t index,
                               uint64_t counter, size_t text_bytes_max);
void entry_free(struct entry *entry); /* it must be on no list */
void entry_drop_answer(struct entry *entry);
const char *entry_label(const struct entry *entry, char label[LABEL_BYTES]); /* label_job */
/* Another daemon has the job: reports `lost`, unless the daemon has ended the lease already. */
void entry_lose(struct entry *entry);

size_t entries_unacknowledged(const struct queue *queue); /* number of leases in the outboxes */
void entries_end_batch(struct queue *queue); /* of the daemon's events */
