/* client.h - a Redis client for gpuimgctl whose functions block until the reply arrives.
 *
 * It uses the daemon's asynchronous connection (queue/redis/connection.h), which supports
 * Sentinels, Clusters and password files, and runs the event loop until the reply arrives. All
 * clients of the process share one loop, so a client can connect while the caller waits for another
 * one.
 *
 * One thread. The caller owns each reply and frees it with freeReplyObject. */
#pragma once

#include <stdarg.h>

#include <hiredis/hiredis.h>
#include <uv.h>

#include "conf/options.h"

struct client;

/* Starts to connect to Redis, and keeps trying whenever the loop runs. Returns NULL and sets
 * `error` if the address is invalid or memory is short. `options` must outlive the client. */
struct client *client_begin(const struct options *options, struct error *error);
/* Waits until the connection works, or until each server in the address has failed once or timed
 * out. Returns false if Redis is away or refuses (client_why). */
bool client_ready(struct client *client) MUST_CHECK;
void client_close(struct client *client); /* NULL is allowed */

/* Sends one command, in the format of redis_ask or as an array of words. lengths: of the words;
 * NULL: they are strings. client_take waits for a reply; replies come in the order of the commands.
 * A reply is NULL if the connection broke; Redis may have executed the command anyway. */
void client_send(struct client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void client_send_words(struct client *client, int argc, const char **argv, const size_t *lengths);
redisReply *client_take(struct client *client);

/* Sends an idempotent command and waits for its reply. If the connection breaks, the command is
 * sent again on a new one. Returns NULL if Redis sends no reply or an error; client_why describes
 * it. */
redisReply *client_ask(struct client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
redisReply *client_vask(struct client *client, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
redisReply *client_ask_words(struct client *client, int argc, const char **argv,
                             const size_t *lengths);

/* For the next `seconds`, client_ask retries commands while Redis is unreachable or refuses them
 * temporarily (LOADING, OOM, ...). An interrupt ends the retries. `away` is called before each
 * pause; client_why gives the reason. */
typedef void (*client_away_cb)(void *context);
void client_retry_for(struct client *client, double seconds, client_away_cb away, void *context);
/* Whether a retry may succeed after this error reply, or after NULL, a lost reply. */
bool client_is_transient(const redisReply *reply);

/* The last error, as text for the user. Valid until the next command. */
const char *client_why(const struct client *client);
/* Checks a reply of client_take. Returns false and sets client_why if it is NULL or an error.
 * `what` names the command. */
bool client_reply_ok(struct client *client, const redisReply *reply, const char *what);

/* Whether the connection works; if not, client_why has the reason. */
bool client_up(struct client *client);
/* Runs the loop for `seconds`. An interrupt or client_wake ends the pause early. */
void client_pause(struct client *client, double seconds);
void client_wake(struct client *client);
/* From now on the first SIGINT or SIGTERM only ends the current wait; the second one ends the
 * process. */
void client_catch_interrupt(void);
bool client_interrupted(void);
/* The loop of all clients, for handles of the caller. Closing the last client closes all handles.
 */
uv_loop_t *client_loop(void);
