/* isolate.h - finds the end of a lease that Redis does not take, so that the other ends can go on.
 *
 * Redis closes the connection when it gets more than proto-max-bulk-len or
 * client-query-buffer-limit permits, and proxies have such limits, too; some answer with an error
 * instead. The daemon cannot tell this from a broken connection. Therefore the ends of a call
 * without a reply become doubtful: each is sent alone, after the others, and after Redis has
 * answered a call on the new connection. If an end is large and CUTS_MAX connections break under
 * it, it is sent without its outputs in Redis, and at last with a short result. The job has failed
 * then. */
#pragma once

#include "queue/lease/outbox.h"

struct isolate {
    unsigned long long bulk_max; /* Redis's proto-max-bulk-len; 0: not known */
    size_t blamed_bytes;         /* of an end that Redis did not take; 0: none yet */
};

/* The call of the outbox had no reply: all its ends wait again, and are doubtful. */
void isolate_lost(struct outbox *outbox);
/* Redis refused the call with an error that no permission explains. Returns true if outbox_probed
 * will be called: whether the only end of the call was the reason is asked first. */
bool isolate_refused(struct outbox *outbox, const char *error);
/* How long the end must not be sent yet, in ms. A doubtful one waits until Redis has answered
 * another call on this connection: then the connection works, and breaks because of this end. */
uint64_t isolate_wait_ms(const struct entry *entry);
void isolate_ask_bound(struct queue *queue); /* for the error of a job */
void isolate_taken(const struct entry *entry); /* Redis took this end */
