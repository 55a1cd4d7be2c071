/* calls.h - whether the queue may call scripts now, and how it reacts when Redis refuses a call or
 * the connection breaks.
 *
 * All scripts are called on the main connection. After a refusal the queue backs off: it sends no
 * FETCH, START, DONE, NACK and LOOK for a growing time. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"
#include "queue/redis/script.h"

/* Minimum time between two calls of the same script, so that batches form under load. After a
 * longer pause a call is sent at once. Redis gets at most 500 calls per script and second from a
 * daemon. */
#define GATHER_MS 2
#define RETRY_FIRST_MS 100

enum calls_state {
    CALLS_DOWN,    /* the main connection is not up */
    CALLS_OPEN,
    CALLS_BACK_OFF /* up, but Redis refused a call: TIMER_BACKOFF runs */
};

struct calls {
    enum calls_state state;
    bool proved;           /* Redis has answered a call on this connection (CALLS_DOWN: on the last
                              one): the connection works */
    uint64_t proved_ms;    /* time of the first answer, uv_now */
    uint64_t accepted_ms;  /* when Redis last accepted a call, uv_now */
    uint32_t broken;       /* bit S: the last call of script S had no reply */
    unsigned breaks;       /* connections in a row that broke before an answer, while `broken` is
                              not 0 */
    uint64_t backoff_ms;   /* length of the next TIMER_BACKOFF */
    char logged_refusal[SCRIPT_ID_COUNT][ERROR_TEXT_MAX]; /* the last one in the log; "" after the
                                                             script was accepted */
    char reason[ERROR_TEXT_MAX + 32]; /* view.reason: an error of Redis and its explanation */
};

/* Returns a new call of a script. Its first keys are NS:NAME for each of the names. */
#define call_new(queue, script, ...)                                                               \
    script_call_new(script, (queue)->options->namespace, __VA_ARGS__, NULL)

void calls_opened(struct queue *queue); /* call when the main connection is up */
/* Call when the main connection broke, or an attempt to connect failed. */
void calls_broke(struct queue *queue, const char *reason);
void calls_backed_off(struct queue *queue); /* call when TIMER_BACKOFF expires */
/* Whether the main connection is up. */
bool calls_up(const struct queue *queue);
/* Whether the main connection is up, and the queue does not back off. */
bool calls_ready(const struct queue *queue);
/* Whether calls_ready is true and this script may be called. If its last call had no reply, it must
 * wait until Redis has answered another call on this connection. */
bool calls_may_send(const struct queue *queue, enum script script);
/* Checks a reply. Returns true if it is an array of at least `least` elements; else calls
 * calls_refused. */
bool calls_accept(struct queue *queue, enum script script, const redisReply *reply, size_t least,
                  bool waits);
/* Handles a reply that is an error or has an unexpected form: logs it once. waits: the queue backs
 * off. */
void calls_refused(struct queue *queue, enum script script, const redisReply *reply, bool waits);
/* Whether the reply is a protocol error: Redis could not read the call, and closes the
 * connection. */
bool calls_is_cut(const redisReply *reply);
/* Call if a call of this script had no reply: that call may have broken the connection. Until Redis
 * accepts the script again, the delay before each reconnect grows, and calls_may_send is
 * stricter. */
void calls_lost(struct queue *queue, enum script script);
