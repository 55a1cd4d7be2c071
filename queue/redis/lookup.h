/* lookup.h - resolves a host name on a thread of its own, which never delays the exit.
 *
 * uv_getaddrinfo cannot be cancelled while it runs. With a dead name server, the process could not
 * exit before the resolver gives up. A lookup that is dropped here goes on in the background, but
 * the process may exit. Loop thread only. */
#pragma once

#include <netdb.h>
#include <uv.h>

#include "queue/redis/address.h"

struct lookup;

/* Called once, from the loop. The callback owns `found` (freeaddrinfo). If `found` is NULL,
 * `reason` says why. The struct lookup must not be used any more. */
typedef void (*lookup_cb)(void *context, struct addrinfo *found, const char *reason);

/* Returns NULL if memory or threads are short. */
struct lookup *lookup_start(uv_loop_t *loop, const struct redis_endpoint *server,
                            lookup_cb callback, void *context);
/* Abandons a lookup: its callback is not called. NULL is allowed. */
void lookup_drop(struct lookup *lookup);
