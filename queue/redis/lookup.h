/*
 * lookup.h - a host's addresses, looked up by a thread of its own.
 *
 * libuv's own getaddrinfo cannot be left behind: the loop, and then the process, would end only
 * after a resolver that waits for a dead name server has given up. A lookup that is dropped here
 * goes its way alone; the process may end meanwhile. Loop thread only.
 */
#ifndef GPUIMGD_QUEUE_REDIS_LOOKUP_H
#define GPUIMGD_QUEUE_REDIS_LOOKUP_H

#include <netdb.h>
#include <uv.h>

struct lookup;

/* From the loop, once: addresses for freeaddrinfo, or NULL and why. The lookup is gone then. */
typedef void (*lookup_cb)(void *context, struct addrinfo *found, const char *reason);

/* NULL when memory or threads are short. */
struct lookup *lookup_start(uv_loop_t *loop, const char *host, const char *port,
                            lookup_cb callback, void *context);
/* The callback does not come any more. NULL is fine. */
void lookup_drop(struct lookup *lookup);

#endif
