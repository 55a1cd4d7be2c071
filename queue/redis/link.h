/* link.h - one connection to one Redis server, from the connect to the close.
 *
 * A link is a libuv stream with a hiredis reader, a list of outstanding commands, and one timer for
 * their timeouts. It does not reconnect; see connection.h.
 *
 * After link_close, a link closes its handles in the background and frees itself in the last close
 * callback. Callbacks of an old connection can therefore never reach a new one. Loop thread only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>
#include <netdb.h>
#include <uv.h>

#include "conf/options.h"

struct link;

/* `reply` is NULL if the connection broke first: Redis may or may not have run the command. The
 * link frees the reply after the callback. To keep reply->str, set it to NULL in the callback. */
typedef void (*link_reply_cb)(void *context, redisReply *reply);

/* Each callback may close the link; `broken` must. */
struct link_events {
    void *context;
    void (*connected)(void *context);
    void (*broken)(void *context, const char *reason);
    /* The timeout of link_new passed before link_open or link_open_socket was called. */
    void (*lookup_timed_out)(void *context);
    /* Called with each reply, before the callback of the oldest command. If it returns true, that
     * callback does not get the reply. */
    bool (*intercept)(void *context, const redisReply *reply);
};

/* Creates a link without a server. The timeout of connect_ms milliseconds starts now. Returns NULL
 * if memory is short. */
struct link *link_new(uv_loop_t *loop, const struct link_events *events, uint64_t connect_ms);
/* Connects to the addresses, one after the other. Takes ownership of the list. The timeout starts
 * again and is divided among the addresses. */
void link_open(struct link *link, struct addrinfo *addresses, uint64_t connect_ms);
void link_open_socket(struct link *link, const char *path);
/* Call before link_open: the connection gets TLS, and the certificate of the server must have the
 * name `host`. `connected` comes after the handshake, which has the same timeout. Both are
 * borrowed. */
void link_use_tls(struct link *link, const struct options *conf, const char *host);

/* The rest of an encoded command, which is not copied. `release` is called once it is written,
 * usually inside link_send. */
struct link_body {
    const char *bytes;
    size_t length;
    void (*release)(void *context);
    void *context;
};

/* Sends an encoded command, for example by redisFormatCommand: a copy of command[0..length), then
 * the body, if it is not NULL. Allowed only after `connected`. Returns false if memory is short or
 * the stream is broken; `release` is not called then. */
bool link_send(struct link *link, const char *command, size_t length, const struct link_body *body,
               uint64_t timeout_ms, link_reply_cb callback, void *context);
/* Returns true if no reply is outstanding. */
bool link_is_idle(const struct link *link);

/* Closes the link: no event follows. Call link_cancel_calls next, in the same turn of the loop; it
 * gives each outstanding command a NULL reply. */
void link_close(struct link *link);
void link_cancel_calls(struct link *link);
