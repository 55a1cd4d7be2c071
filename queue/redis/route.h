/*
 * route.h - where a daemon's connections to Redis go: to the server that the option names, to the
 * node of a Cluster that has the slot, or to the master that Sentinels name.
 *
 * A route is shared by several connections (struct redis), so that what one of them learns moves
 * all: MOVED, or a Sentinel's word. Of several servers named, each is tried in turn. Loop thread
 * only. Members may not join or leave from inside `turned` and `lost`.
 */
#ifndef GPUIMGD_QUEUE_REDIS_ROUTE_H
#define GPUIMGD_QUEUE_REDIS_ROUTE_H

#include <stdbool.h>

#include <uv.h>

#include "conf/list.h"
#include "queue/redis/address.h"

struct route;
struct redis_options;

/* A connection that follows the route. */
struct route_member {
    struct list_node node;
    void *context;
    void (*changed)(void *context);                   /* route_server has something new to say */
    void (*unresolved)(void *context, const char *reason); /* still no server: why, a sentence */
};

/* NULL when memory is short. sentinel: how to connect to Sentinels (without a route); unused, and
 * may be NULL, where the address names none. */
struct route *route_create(uv_loop_t *loop, const struct redis_address *address,
                           const struct redis_options *sentinel);
void route_join(struct route *route, struct route_member *member);
void route_leave(struct route *route, struct route_member *member);

/* The server to connect to. False: it is being asked for, and `turned` or `lost` follows. */
bool route_server(struct route *route, struct redis_endpoint *endpoint);
/* Is this still the server? */
bool route_is_server(const struct route *route, const struct redis_endpoint *endpoint);
/* Must a server show by ROLE that it is a master? */
bool route_requires_master(const struct route *route);
/* Does the log have to name the server, because it may be one or another? */
bool route_varies(const struct route *route);

/* No connection to this server could be made, or (`lost`) one broke, or the server is not the right
 * one any more. Another one is tried next, where there is one; one that was lost is tried again. */
void route_failed(struct route *route, const struct redis_endpoint *endpoint, bool lost);
/* A Cluster node's "SLOT host:port" behind MOVED; without a host it means the node's own. False if
 * it names no server, or the node itself. */
bool route_moved(struct route *route, const struct redis_endpoint *from, const char *text);

/* All members have left. closed may come from inside the call; the route is gone then. */
void route_close(struct route *route, void (*closed)(void *context), void *context);

#endif
