/*
 * link.h - one connection to a server, from the attempt to its end: a libuv stream with hiredis'
 * formatter and reader on it, commands whose answers are awaited, and their timeouts.
 *
 * A link goes its way alone once it has been let go of: its handles close, and the last close
 * callback frees it. So no callback of an old connection can reach a new one. Loop thread only.
 */
#ifndef GPUIMGD_QUEUE_REDIS_LINK_H
#define GPUIMGD_QUEUE_REDIS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>
#include <netdb.h>
#include <uv.h>

struct link;

/* reply is NULL when the connection went down before the answer: the command may have been carried
 * out or not. It is freed after the callback, which may keep reply->str by setting it to NULL. */
typedef void (*link_reply_cb)(void *context, redisReply *reply);

/* All may let go of the link; `broken` must. */
struct link_events {
    void *context;
    void (*connected)(void *context);
    void (*broken)(void *context, const char *reason);
    /* The connection is not there within the time given, and there was no address to try. */
    void (*lookup_timed_out)(void *context);
    /* Looks at what came before it goes to the oldest command. True: it is not for that. */
    bool (*intercept)(void *context, const redisReply *reply);
};

/* The attempt, which has so many milliseconds from here; link_open says where to. NULL when memory
 * is short. */
struct link *link_new(uv_loop_t *loop, const struct link_events *events, uint64_t connect_ms);
/* To the addresses, one after the other, which are freed then; the time for connecting begins
 * anew, and they share it. */
void link_open(struct link *link, struct addrinfo *addresses, uint64_t connect_ms);
void link_open_socket(struct link *link, const char *path);

/* Not before `connected`. False when memory is short or the stream is broken. */
bool link_send(struct link *link, int argc, const char **argv, const size_t *lengths,
               uint64_t timeout_ms, link_reply_cb callback, void *context);
/* Is no answer awaited any more? */
bool link_is_idle(const struct link *link);

/* No event comes from now on. Then link_cancel_calls gives each awaited answer its NULL; until that
 * and the loop's next turn the struct stays. */
void link_close(struct link *link);
void link_cancel_calls(struct link *link);

#endif
