/* end.h - sends the ends of leases to Redis, in batches, by the scripts DONE and NACK.
 *
 * If a call gets no reply, Redis may have run it. Its leases are sent again, one per call
 * (isolate.h). The reply "the job is gone" then means that the first call ended the lease. */
#pragma once

#include "queue/lease/outbox.h"

/* Sends the next call of the outbox, if an end waits and may be sent now. */
void end_pump(struct outbox *outbox);
/* Adds the end of a lease to its outbox. `answer` may be NULL. */
void end_push(struct entry *entry, enum end_kind kind, const struct queue_answer *answer);
/* Drops ends that Redis has not accepted for lease_s, if the daemon has several shards (group.h).
 * Call every renew_s. */
void end_drop_expired(struct queue *queue);
