/* calls.h - calls of scripts on the main connection: when they may be sent, and what follows if
 * Redis refuses them or breaks the connection. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"
#include "queue/redis/script.h"

/* Minimum time between two calls of a kind, so that batches form under load. After a longer pause a
 * call is sent at once. Redis gets at most 500 calls of a kind per second from a daemon. */
#define GATHER_MS 2
#define RETRY_FIRST_MS 100

enum calls_state {
    CALLS_DOWN,    /* the main connection is not up */
    CALLS_OPEN,
    CALLS_BACK_OFF /* up, but Redis refused a call: TIMER_BACKOFF runs */
};

struct calls {
    enum calls_state state;
    bool proved;           /* Redis has answered a call on this connection, or on the last one */
    uint64_t proved_ms;    /* the first, uv_now */
    uint64_t accepted_ms;  /* when Redis last accepted a call, uv_now */
    uint32_t broken;       /* bit S: the last call of script S had no reply */
    unsigned breaks;       /* connections that broke without an answer while `broken` is set */
    uint64_t backoff_ms;   /* length of the next TIMER_BACKOFF */
    char logged_refusal[SCRIPT_ID_COUNT][ERROR_TEXT_MAX]; /* the last refusal in the log */
    char reason[ERROR_TEXT_MAX + 32]; /* view.reason: an error of Redis and its explanation */
};

/* Starts a call of a script with the keys NS:NAME of a list of names. */
#define call_new(queue, script, ...)                                                               \
    script_call_new(script, (queue)->options->namespace, __VA_ARGS__, NULL)

void calls_opened(struct queue *queue); /* the main connection is new */
/* It broke, or an attempt to connect failed. */
void calls_broke(struct queue *queue, const char *reason);
void calls_backed_off(struct queue *queue); /* TIMER_BACKOFF expired */
/* Whether the main connection is up. */
bool calls_up(const struct queue *queue);
/* The main connection is up, and does not back off. */
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
