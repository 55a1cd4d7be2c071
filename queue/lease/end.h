/* end.h - ends leases by DONE and NACK, in batches.
 *
 * If a call gets no reply, Redis may have run it. Its leases are sent again, one by one
 * (isolate.h), and the reply "the job is gone" then means success. */
#pragma once

#include "queue/lease/outbox.h"

/* Sends the next call if one is needed and possible. */
void end_pump(struct outbox *outbox);
/* Queues the end of a lease. `answer` may be NULL. */
void end_push(struct entry *entry, enum end_kind kind, const struct queue_answer *answer);
/* Drops ends that a shard has not accepted for lease_s. Called each renew_s. */
void end_drop_expired(struct queue *queue);
