/* store.h - stores outputs of images under keys of Redis, one by one (queue_store).
 *
 * The outputs of a job with one image are stored by DONE, together with its result. A job with many
 * images has too many of them for one call, and stores each as soon as it is encoded, by SET.
 *
 * SETs wait while Redis is away or refuses all calls, and are sent again if the connection breaks:
 * they store the same bytes. If an ACL denies only the key or the command SET, the output fails. As
 * isolate.h does for ends, a value whose SET had no reply becomes suspect: it is then sent alone,
 * and after ISOLATE_CUTS_MAX such calls it is too large. STORES_* in conf/limits.h bound the SETs
 * without a reply. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

struct group;

enum store_bound { BOUND_UNKNOWN, BOUND_ASKED, BOUND_KNOWN };

struct stores {
    struct list all;             /* of struct store (store.c), in the order of ranks */
    unsigned out;                /* of these, with an outstanding command */
    bool suspect_out;            /* the one with an outstanding command is suspect */
    bool refused;                /* Redis refused the last SET: one at a time is tried */
    uint64_t due_ms;             /* end of the pause after a refusal, uv_now */
    uint64_t pause_ms;           /* length of the next pause */
    enum store_bound bound;      /* whether isolate.bulk_max is known on this connection */
    char logged[ERROR_TEXT_MAX]; /* the last refusal in the log; "" after a SET was accepted */
};

/* Of a group: the SETs of all queues. */
struct store_permits {
    unsigned out;  /* outstanding: at most STORES_MAX */
    size_t bytes;  /* of these: at most STORES_BYTES, or one that is larger */
    uint32_t next; /* index of the queue that sends first, modulo their number */
};

void store_init(struct queue *queue);
void store_up(struct queue *queue); /* call when the main connection is up */
/* Makes the queues of the group send what can be sent now, in this iteration of the loop or the
 * next one. */
void store_wake(struct group *group);
void store_pump(struct group *group);
/* Fails all SETs that wait. Call if a shard was away for so long that its ends are dropped. */
void store_drop_all(struct queue *queue);
void store_cancel_all(struct queue *queue); /* after this, no callback is called */
void store_free_all(struct queue *queue);
