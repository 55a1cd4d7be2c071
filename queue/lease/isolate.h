/* isolate.h - finds a job whose result or outputs are too large for Redis, so that only it fails.
 *
 * Redis closes the connection when it gets more than proto-max-bulk-len or
 * client-query-buffer-limit permits. Proxies have similar limits; some reply with an error. The
 * daemon cannot tell this from a connection that broke for another reason. Therefore the ends of a
 * call without a reply become doubtful: each is sent in a call of its own, after all other ends,
 * and after Redis has answered another call on the new connection. If an end is large and
 * ISOLATE_CUTS_MAX of its calls fail, it is sent without its outputs to keys and, if that does not
 * help, with a shortened result. The job then counts as failed. */
#pragma once

#include "queue/lease/outbox.h"

/* An end or a value of at most this size is never too large: all servers and proxies accept
 * more. */
#define ISOLATE_BYTES_LEAST (16 * KIB)
#define ISOLATE_CUTS_MAX    3

struct isolate {
    unsigned long long bulk_max; /* Redis's proto-max-bulk-len; 0: not known */
    size_t blamed_bytes;         /* of an end that was made smaller for this reason. Later ends
                                    of at least this size are made smaller after one failure */
};

/* Call if the call of the outbox had no reply: its ends become doubtful, and wait again. */
void isolate_lost(struct outbox *outbox);
/* Call if Redis refused the call with an error other than NOPERM. The ends become doubtful. If the
 * call had one large end, sends a control call without ends, calls outbox_probed after its reply,
 * and returns true. If Redis accepts the control, the end was the reason of the refusal. */
bool isolate_refused(struct outbox *outbox, const char *error);
/* How long the end must still wait, in ms. A doubtful end waits until Redis has answered another
 * call on this connection. If the connection breaks later, the end is the likely reason. */
uint64_t isolate_wait_ms(const struct entry *entry);
/* Asks Redis for proto-max-bulk-len, to choose the outputs to leave out and for error messages. */
void isolate_ask_bound(struct queue *queue);
/* Takes the reply to CONFIG GET proto-max-bulk-len: {"proto-max-bulk-len", "536870912"}, or an
 * error, because CONFIG may be denied. */
void isolate_take_bound(struct queue *queue, const redisReply *reply);
/* Sets the error of `what`, which has so many bytes and is too large. */
void isolate_describe(const struct queue *queue, struct error *error, size_t bytes,
                      const char *what);
void isolate_taken(const struct entry *entry); /* call when Redis has accepted this end */
