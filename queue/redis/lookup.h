/* lookup.h - resolves a host name on a thread of its own.
 *
 * uv_getaddrinfo cannot be cancelled once it runs: with a dead name server, the process could not
 * exit before the resolver gives up. A lookup that is dropped here runs on in the background, and
 * the process may exit meanwhile. Loop thread only. */
#pragma once

#include <netdb.h>
#include <uv.h>

#include "queue/redis/address.h"

struct lookup;

/* Called once, from the loop. `found` is owned by the callback (freeaddrinfo). If it is NULL,
 * `reason` says why. The lookup has ended and its handle is invalid. */
typedef void (*lookup_cb)(void *context, struct addrinfo *found, const char *reason);

/* Returns NULL if memory or threads are short. */
struct lookup *lookup_start(uv_loop_t *loop, const struct redis_endpoint *server,
                            lookup_cb callback, void *context);
/* Abandons a lookup: its callback is not called. NULL is allowed. */
void lookup_drop(struct lookup *lookup);
