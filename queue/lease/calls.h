/* calls.h - calls of scripts on the main connection: when they may be sent, and what follows if
 * Redis refuses them or breaks the connection. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"
#include "queue/redis/script.h"

/* Minimum time between two calls of a kind, so that batches form under load. After a longer pause a
 * call is sent at once. Redis gets at most 500 calls of a kind per second from a daemon. */
#define GATHER_MS 2
#define RETRY_FIRST_MS 100

/* Starts a call of a script with the keys NS:NAME of a list of names. */
#define call_new(queue, script, ...)                                                               \
    script_call_new(script, (queue)->options->namespace, __VA_ARGS__, NULL)

/* Whether the main connection is up. */
bool calls_up(const struct queue *queue);
/* Connected, and TIMER_BACKOFF does not run. */
bool calls_ready(const struct queue *queue);
/* calls_ready, and the connection has answered a call if calls of this script may break it. */
bool calls_may_send(const struct queue *queue, enum script script);
/* Returns true if the reply is an array of at least `least` elements; else calls calls_refused. */
bool calls_accept(struct queue *queue, enum script script, const redisReply *reply, size_t least,
                  bool waits);
/* Handles a reply that is an error or has an unexpected form: logs it once. `waits`: sends nothing
 * more for a while. */
void calls_refused(struct queue *queue, enum script script, const redisReply *reply, bool waits);
/* Whether Redis closes the connection after this reply, because it cannot take the call. */
bool calls_is_cut(const redisReply *reply);
/* A call had no reply: it may be the reason. Until a call of this script is accepted, the pauses
 * before reconnects grow, and calls of it are sent only after Redis has answered another call. */
void calls_lost(struct queue *queue, enum script script);
