/* link.h - one connection to one Redis server, from the connect to the close.
 *
 * A link is a libuv stream with a hiredis reader, a list of outstanding commands, and one timer for
 * their timeouts. It does not reconnect; connection.h makes a new link instead.
 *
 * After link_close, a link closes its handles in the background and frees itself in the last close
 * callback. A new link is another struct, so it never gets callbacks of an old one. Loop thread
 * only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>
#include <netdb.h>
#include <uv.h>

#include "conf/options.h"

struct link;

/* `reply` is NULL if the connection broke first: Redis may have run the command or not. The link
 * frees the reply after the callback. To keep reply->str, take it and set reply->str to NULL. */
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
/* Tries the addresses one after the other until a connect succeeds. Takes ownership of the list.
 * The timeout starts again, and the time that is left is divided among the addresses that are left.
 */
void link_open(struct link *link, struct addrinfo *addresses, uint64_t connect_ms);
void link_open_socket(struct link *link, const char *path);
/* Call before link_open to use TLS. The certificate of the server must have the name `host`. The
 * event `connected` comes after the TLS handshake, and the timeout of link_open includes it. `conf`
 * and `host` are borrowed. */
void link_use_tls(struct link *link, const struct options *conf, const char *host);

/* The second part of an encoded command, which link_send does not copy. `release` is called when
 * the bytes have been written or dropped, usually inside link_send. */
struct link_body {
    const char *bytes;
    size_t length;
    void (*release)(void *context);
    void *context;
};

/* Sends an encoded command: command[0..length), which is copied, and then the body, unless it is
 * NULL. Allowed only after `connected`. Returns false if memory is short or the stream is broken;
 * `release` is not called then. */
bool link_send(struct link *link, const char *command, size_t length, const struct link_body *body,
               uint64_t timeout_ms, link_reply_cb callback, void *context);
/* Whether no command is outstanding. */
bool link_is_idle(const struct link *link);

/* Closes the link: no event follows. Call link_cancel_calls next, in the same turn of the loop; it
 * gives each outstanding command a NULL reply. */
void link_close(struct link *link);
void link_cancel_calls(struct link *link);
