/* outbox.h - ended leases on the way to one script, DONE or NACK: its calls, and their bytes.
 *
 * A outbox sends one call at a time; leases that end meanwhile form the next batch. Loop thread
 * only.
 */
#pragma once

#include "queue/lease/entry.h"
#include "queue/lease/timers.h"
#include "queue/redis/script.h"

struct outbox {
    struct queue *queue;
    enum script script;
    struct list waiting, sent; /* sent: the batch of the one call without a reply */
    size_t sent_bytes;         /* of `sent`, while they count towards outbox_bytes.sent */
    uint64_t sent_ms;          /* time of the last call, uv_now */
    bool refused;              /* Redis refused the last call: do not fetch meanwhile */
    uint64_t refused_ms;       /* time of the first refusal since the last accepted call, uv_now */
    unsigned probes;           /* outstanding key probes (denial.c); `sent` must not change */
    char denied[ERROR_TEXT_MAX]; /* the error reply that caused the probes */
    bool control_denied;         /* the probe of a key of the queue itself was denied too */
    enum queue_timer timer;
};

/* Of the group. */
struct outbox_bytes {
    size_t sent;          /* of large DONE and NACK calls without a reply, of all shards. At most
                             KEY_OUTPUTS_BYTES_MAX, or one call */
    struct outbox *first; /* the outbox that sends the next large call; NULL: any */
};

void outbox_init(struct outbox *outbox, struct queue *queue, enum script script,
                 enum queue_timer timer);
/* The call was refused. */
void outbox_refuse(struct outbox *outbox);
/* Returns the batch to the waiting leases. sent_before: Redis may have run the call. */
void outbox_put_back(struct outbox *outbox, bool sent_before);
/* The probes of a refused call are over. some: a reason was found and left out of the batch, which
 * is sent again. Else the call is refused. */
void outbox_probed(struct outbox *outbox, bool some);

/* A call that ends the leases in outbox->sent; outbox_control: that ends none. */
struct script_call *outbox_call(struct outbox *outbox);
struct script_call *outbox_control(struct outbox *outbox);

/* Counts the bytes of a call that a outbox is about to send. false: it must wait for other calls,
 * or for a outbox that has waited longer. */
bool outbox_take_bytes(struct outbox *outbox, size_t bytes);
/* The call has ended. The outboxes that wait try again. */
void outbox_give_bytes(struct outbox *outbox);
