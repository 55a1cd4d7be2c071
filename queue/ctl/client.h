/*
 * client.h - Redis for a program that waits for its answers: the daemon's connection (connection.h,
 * route.h, with Sentinels, Clusters and password files), and a loop that runs until a reply is
 * there.
 *
 * One thread. Replies are the caller's, for freeReplyObject.
 */
#ifndef GPUIMGD_QUEUE_CTL_CLIENT_H
#define GPUIMGD_QUEUE_CTL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/hiredis.h>
#include <uv.h>

#include "conf/options.h"

struct client;

/* Connects; NULL with a sentence when that cannot be. The options are borrowed. */
struct client *client_open(const struct options *options, struct error *error);
void client_close(struct client *client); /* NULL is fine */

/* Sends one command; replies come in the order of the commands, by client_take. An answer that
 * will not come any more, because the connection broke, is NULL: it may have been carried out. */
void client_send(struct client *client, int argc, const char **argv, const size_t *lengths);
redisReply *client_take(struct client *client);

/* A command of words, ended by NULL, that does no harm when it is carried out twice: a lost one is
 * sent again, on a new connection. NULL: there is no answer, or an error; client_why says which. */
redisReply *client_ask(struct client *client, ...) __attribute__((sentinel));
redisReply *client_ask_words(struct client *client, int argc, const char **argv,
                             const size_t *lengths);
/* The same for a command that answers with an integer. */
bool client_integer(struct client *client, long long *answer, ...) __attribute__((sentinel));

/* From here on, and for so many seconds, a question waits while Redis is away or refuses for a time
 * (LOADING, OOM, ...), and is asked again; an interrupt ends that. away is called before each wait,
 * again and again while there is no answer; client_why says why. */
typedef void (*client_away_cb)(void *context);
void client_retry_for(struct client *client, double seconds, client_away_cb away, void *context);
/* Is what came instead of an answer one that another try may get over? NULL is no reply. */
bool client_is_transient(const redisReply *reply);

/* A sentence. */
const char *client_why(const struct client *client);
/* Looks at a reply of client_take: NULL and errors are false, with client_why set. */
bool client_reply_ok(struct client *client, const redisReply *reply, const char *what);

bool client_up(const struct client *client);
/* Lets time pass, on the loop, or less of it when the client was interrupted or woken. */
void client_pause(struct client *client, double seconds);
void client_wake(struct client *client);
/* From here on SIGINT and SIGTERM do not end the process, but what it waits for; a second one
 * ends it. */
void client_catch_interrupt(void);
bool client_interrupted(void);
/* For handles of the caller's own, closed before client_close. */
uv_loop_t *client_loop(struct client *client);

/* "127.0.0.1:6379", as the option `redis` has it. */
const char *client_server(const struct client *client);

#endif
