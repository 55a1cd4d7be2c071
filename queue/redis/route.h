/* route.h - selects the Redis server to connect to: a configured server, the Cluster node that owns
 * the keys, or the master that Sentinels report.
 *
 * Several connections (struct redis) share a route. If one of them learns of a new server, by MOVED
 * or from a Sentinel, all of them change to it. If several servers are configured, they are tried
 * in turn. Loop thread only. Callbacks must not add or remove members. */
#pragma once

#include <uv.h>

#include "conf/list.h"
#include "queue/redis/address.h"

struct route;
struct redis_options;

/* A connection that uses the route. Owned by the connection. */
struct route_member {
    struct list_node node;
    void *context;
    void (*changed)(void *context);                        /* route_server names another server */
    void (*unresolved)(void *context, const char *reason); /* no Sentinel names a server */
};

/* `options` says how to connect to Sentinels. Returns NULL if memory is short. */
struct route *route_create(uv_loop_t *loop, const struct redis_address *address,
                           const struct redis_options *options);
void route_join(struct route *route, struct route_member *member);
void route_leave(struct route *route, struct route_member *member);

/* Writes the current server to `endpoint`. If it is not known yet, returns false and asks the
 * Sentinels; then `changed` or `unresolved` is called. */
bool route_server(struct route *route, struct redis_endpoint *endpoint);
/* Returns true if the endpoint is the current server. */
bool route_is_server(const struct route *route, const struct redis_endpoint *endpoint);
/* Whether a server must report the role "master" before it is used. */
bool route_requires_master(const struct route *route);
/* The address of route_create, for its TLS, user, password and database. */
const struct redis_address *route_address(const struct route *route);
/* Whether the server can change, so that log messages must name it. */
bool route_varies(const struct route *route);

/* Call if a connect failed, if a connection broke (`lost`), or if the server is the wrong one. The
 * next attempt uses the next server. After `lost`, the same server is tried once more first. */
void route_failed(struct route *route, const struct redis_endpoint *endpoint, bool lost);
/* Handles MOVED. `text` is "SLOT host:port"; without a host it means the host of `from`, the node
 * that answered. Returns false if the text names no server, or `from` itself. */
bool route_moved(struct route *route, const struct redis_endpoint *from, const char *text);

/* Frees the route, which must have no members. `closed` runs after that, either from the loop or
 * inside this call. */
void route_close(struct route *route, void (*closed)(void *context), void *context);
