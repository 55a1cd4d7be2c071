/* outbox.h - the ended leases of a queue whose end Redis does not know yet, and the calls for them.
 *
 * The daemon ends a lease; the script DONE or NACK tells Redis. A queue has an outbox for each of
 * the two scripts. Only one call of an outbox is outstanding at a time. Leases that end meanwhile
 * form the next batch. end.h decides when to send. Loop thread only. */
#pragma once

#include "queue/lease/entry.h"
#include "queue/lease/timers.h"
#include "queue/redis/script.h"

struct group;

struct outbox {
    struct queue *queue;
    enum script script;
    struct list waiting, sent; /* of entries; sent: the batch of the outstanding call */
    size_t sent_bytes;         /* bytes of that call, if it is large (outbox_take_bytes); else 0 */
    uint64_t sent_ms;          /* time of the last call, uv_now */
    bool refused;              /* Redis refused the last call: the queue does not fetch */
    uint64_t refused_ms;       /* time of the first refusal since the last accepted call, uv_now */
    unsigned probes;           /* outstanding probes (denial.h) and control calls
                                  (isolate.h). Meanwhile `sent` must not change */
    char denied[ERROR_TEXT_MAX]; /* the error reply that caused the probes */
    bool control_denied;         /* the probe of a key of the queue itself was denied too */
    enum queue_timer timer;
};

/* Of a group: bounds the memory of the large calls and SETs of all shards. */
struct outbox_bytes {
    size_t sent;          /* bytes of outstanding large calls: at most KEY_OUTPUTS_BYTES_MAX, or one
                             call that is larger */
    struct outbox *first; /* the outbox that waits longest for such a call; NULL: none waits */
};

void outbox_init(struct outbox *outbox, struct queue *queue, enum script script,
                 enum queue_timer timer);
/* Notes that Redis refused the call. */
void outbox_refuse(struct outbox *outbox);
/* Moves the batch from `sent` back to `waiting`. sent_before: Redis may have run the call. */
void outbox_put_back(struct outbox *outbox, bool sent_before);
/* Call after the last probe of a refused call. mended: denied or too large parts have been left out
 * of the batch. The batch is then sent again; else the outbox waits as after any refusal. */
void outbox_probed(struct outbox *outbox, bool mended);

/* Returns a call that ends the leases in outbox->sent. */
struct script_call *outbox_call(struct outbox *outbox);
/* Returns a call of the same script that ends no lease: a control, to see if Redis accepts that. */
struct script_call *outbox_control(struct outbox *outbox);

/* Reserves the bytes of a call before it is sent; calls of at most CALL_SMALL_BYTES need none.
 * Returns false if the call must wait for other large calls, or for an outbox that has waited
 * longer. */
bool outbox_take_bytes(struct outbox *outbox, size_t bytes);
/* Returns the bytes after the call, and makes the outboxes that wait try again. */
void outbox_give_bytes(struct outbox *outbox);
/* The same for a SET of store.h. */
bool outbox_lend_bytes(struct group *group, size_t bytes);
void outbox_end_loan(struct group *group, size_t bytes);
