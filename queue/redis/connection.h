/*
 * connection.h - a connection to Redis over libuv streams: keeps itself up and follows its route.
 *
 * hiredis formats commands and parses replies; connecting, timeouts and reconnecting are done
 * here, because its asynchronous half resolves names while the loop waits, reports no refused
 * connection and has no timeouts. Loop thread only. Replies come from the loop, never from
 * inside redis_send; callbacks may send and may drop the connection.
 */
#ifndef GPUIMGD_QUEUE_REDIS_CONNECTION_H
#define GPUIMGD_QUEUE_REDIS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>
#include <uv.h>

#include "conf/status.h"
#include "queue/redis/address.h"
#include "queue/redis/link.h"

struct redis;
struct route;

struct redis_options {
    struct route *route;       /* borrowed, for longer than the connection; see route.h */
    const char *name;          /* for the log; "" keeps this connection out of it */
    const char *username, *password_file; /* NULL or "" = none */
    uint32_t database;
    double connect_timeout_s, command_timeout_s, auth_retry_s;
    /* Three values of erand48(), owned by the caller. They spread the reconnects of daemons that
     * lost the same Redis. */
    unsigned short *random_state;
};

struct redis_events {
    void *context;
    void (*up)(void *context);
    /* Down, or still not up: why, a sentence. Comes before the callbacks of what was sent. */
    void (*down)(void *context, const char *reason);
    /* A message of a channel that was subscribed to. NULL where there is none. */
    void (*pushed)(void *context, const redisReply *message);
};

typedef link_reply_cb redis_reply_cb; /* reply: NULL, or freed afterwards (link.h) */

/* What an error reply asks for. */
enum redis_refusal {
    REDIS_REFUSAL_WAIT,      /* LOADING, BUSY, OOM, ...: the same again, later */
    REDIS_REFUSAL_RECONNECT, /* READONLY, MOVED, ...: it is not the server any more */
    REDIS_REFUSAL_AUTH,      /* NOAUTH, WRONGPASS, NOPERM: a person must help */
    REDIS_REFUSAL_NOSCRIPT,
    REDIS_REFUSAL_OTHER
};
enum redis_refusal redis_refusal(const char *error);
/* What a person can do about an error reply, or about why there is no connection, as an ending of
 * the sentence: "; see ...". "" where there is nothing to say. */
const char *redis_advice(const char *reason);
/* Does the code stand in the text of an error reply? Scripts put it behind words of their own. */
bool redis_error_is(const char *error, const char *code);

/* NULL when memory is short. The strings in options are copied. */
struct redis *redis_create(uv_loop_t *loop, const struct redis_options *options,
                           const struct redis_events *events);
void redis_start(struct redis *redis);
bool redis_up(const struct redis *redis);

/* Sends a command if the connection is up; false if not, and then the callback does not come. An
 * answer that takes longer than timeout_s (0: command_timeout_s) with nothing moving on the line
 * drops the connection. */
bool redis_send(struct redis *redis, int argc, const char **argv, const size_t *lengths,
                double timeout_s, redis_reply_cb callback, void *context);

/* Lets go of a connection that is up but of no use, and tries again, within 0.1 s the first time,
 * with the next server where the route has several. Until redis_mark_healthy is called, tries
 * become rarer and a reason that stays the same is not said again. */
void redis_drop(struct redis *redis, const char *reason);
void redis_mark_healthy(struct redis *redis);

/* Ends for good; closed comes from the loop, then the struct is gone. Outstanding commands get
 * their NULL. */
void redis_close(struct redis *redis, void (*closed)(void *context), void *context);

#endif
