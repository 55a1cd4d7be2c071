/* entry.h - the leases of a queue, from FETCH until Redis has acknowledged their end.
 *
 * An entry is a lease with the queue's private data. It is in entries.all, and in one other list:
 * in entries.running while the daemon runs the job; after the daemon has ended the lease, in the
 * `waiting` list of an outbox; and in its `sent` list until Redis has answered. Loop thread
 * only. */
#pragma once

#include <hiredis/hiredis.h>

#include "queue/job/job.h"
#include "queue/lease/queue.h"

/* How the daemon ended a lease. */
enum end_kind {
    END_DONE,  /* queue_done */
    END_RETRY, /* queue_retry */
    END_BACK,  /* queue_give_back */
    END_LATER  /* queue_give_back_later */
};

/* lease.pending points to the entry. */
struct entry {
    struct lease lease;
    struct list_node in_all; /* in entries.all */
    struct queue *queue;
    enum end_kind kind;
    bool internal;      /* not known to the daemon: no event is sent for it */
    bool sent_before;   /* an earlier call had no reply: Redis may have run it */
    bool doubtful;      /* Redis may not take this end: it gets a call of its own (isolate.h) */
    unsigned cuts;      /* calls of its own that broke the connection, or that Redis refused */
    bool unique;        /* the job is: its end makes the id free for another job */
    bool ended_by_start; /* START ended the lease in Redis; no call is needed */
    struct ask *ask;     /* the question of queue_ask (start.c) that has no answer yet, or NULL */
    char *result, *id, *reply_to; /* of the answer (struct queue_answer), or NULL */
    bool reply_denied;  /* an ACL denies the reply_to key */
    uint32_t values_denied; /* bit i: an ACL denies the key of values[i] */
    bool reply_dropped; /* reply_to was denied: the result goes to NS:results, even if the option
                           `results` says none */
    struct queue_value *values;
    size_t value_count;
    size_t bytes; /* of the result and the values */
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
/* Creates an entry from three elements of a reply of FETCH or REAP, which begin at `index`: number,
 * attempt and text. counter: of that call. Takes the text out of the reply. Returns NULL if memory
 * is short or the reply has another form. */
struct entry *entry_from_reply(struct queue *queue, redisReply *reply, size_t index,
                               uint64_t counter, size_t text_bytes_max);
void entry_free(struct entry *entry); /* the entry must be in no list */
void entry_drop_answer(struct entry *entry);
/* Writes a name of the job for log lines (label_job). */
const char *entry_label(const struct entry *entry, char label[LABEL_BYTES]);
/* Call if another daemon has the job. Calls the event `lost`, unless the daemon has ended the lease
 * already. */
void entry_lose(struct entry *entry);

size_t entries_unacknowledged(const struct queue *queue); /* number of leases in the outboxes */
void entries_end_batch(struct queue *queue);              /* calls the event batch_ended */
