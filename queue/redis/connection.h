/* connection.h - a connection to Redis on a libuv loop that reconnects after each failure.
 *
 * hiredis parses the replies. The asynchronous API of hiredis is not used, because it blocks the
 * loop in name lookups, does not report a refused connection, and has no timeouts.
 *
 * Loop thread only. Reply callbacks run from the loop, never inside redis_send. A callback may send
 * commands and may call redis_drop. */
#pragma once

#include <hiredis/hiredis.h>
#include <uv.h>

#include "conf/options.h"
#include "queue/redis/address.h"
#include "queue/redis/link.h"

struct redis;
struct route;

/* The route and `conf` are borrowed and must outlive the connection. */
struct redis_options {
    struct route *route;
    const struct options *conf; /* the user, the database and the timeouts */
    bool is_sentinel;           /* connects as sentinel_username, and to no database */
    bool logs;                  /* log each change: connected, broken */
    const char *log_prefix;     /* of each log message, borrowed; NULL: none */
    /* State of erand48(), three values owned by the caller. Random delays keep many daemons from
     * reconnecting at the same moment. */
    unsigned short *random_state;
};

struct redis_events {
    void *context;
    /* The handshake has succeeded: commands can be sent. */
    void (*up)(void *context);
    /* The connection broke, or an attempt to connect failed. `reason` is a sentence. Called before
     * the callbacks of the outstanding commands. */
    void (*down)(void *context, const char *reason);
    /* Optional. A message of a channel to which this connection has subscribed. */
    void (*pushed)(void *context, const redisReply *message);
};

/* link.h says who owns the reply. */
typedef link_reply_cb redis_reply_cb;

/* How to react to an error reply. */
enum redis_refusal {
    REDIS_REFUSAL_WAIT,      /* LOADING, BUSY, OOM, ...: retry later on the same connection */
    REDIS_REFUSAL_RECONNECT, /* READONLY, MOVED, ...: this is no longer the right server */
    REDIS_REFUSAL_AUTH,      /* NOAUTH, WRONGPASS, NOPERM: an administrator must act */
    REDIS_REFUSAL_NOSCRIPT,
    REDIS_REFUSAL_OTHER
};
enum redis_refusal redis_refusal(const char *error);
/* Returns a hint for the user, to append to an error reply or to the reason of `down`: "; see ...".
 * Returns "" if there is no hint. The string is static. */
const char *redis_advice(const char *reason);
/* Checks that the file of a password can be read. Each connect reads it. */
bool redis_password_check(const char *path, struct error *error) MUST_CHECK;
/* Returns true if an error reply contains the code as a word. A script may put its own text before
 * the code of a command that failed in it. */
bool redis_error_is(const char *error, const char *code);

/* Returns NULL if memory is short. */
struct redis *redis_create(uv_loop_t *loop, const struct redis_options *options,
                           const struct redis_events *events);
void redis_start(struct redis *redis);
bool redis_up(const struct redis *redis);

/* Sends a command (link_send). Returns false, without a later callback, if the connection is down
 * or memory is short. Drops the connection if no reply comes within timeout_s seconds (0:
 * command_timeout_s) and no data moves on the connection meanwhile. */
bool redis_send(struct redis *redis, const char *command, size_t length,
                const struct link_body *body, double timeout_s, redis_reply_cb callback,
                void *context);
/* The same for a command in the format of hiredis, for example "GET %s:stats:%s". Spaces in the
 * format separate the arguments; strings may contain spaces. Slower, so for rare commands only. */
bool redis_ask(struct redis *redis, double timeout_s, redis_reply_cb callback, void *context,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Drops a connection that is up but unusable, and reconnects, to the next server if the route has
 * several. The first delay is at most 0.1 s. Until redis_mark_healthy is called, the delay grows
 * with each attempt, and an unchanged reason is not logged again. */
void redis_drop(struct redis *redis, const char *reason);
void redis_mark_healthy(struct redis *redis);
/* Call after the server has accepted a call. When the connection breaks later, the first pause is
 * short again. A successful connect alone does not have this effect, because one call may break
 * every connection. */
void redis_reset_backoff(struct redis *redis);

/* Closes the connection for good. Outstanding commands get a NULL reply. `closed` runs from the
 * loop after the struct has been freed. */
void redis_close(struct redis *redis, void (*closed)(void *context), void *context);
