#include "queue/redis/route.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/redis/connection.h"

struct route {
    struct redis_address address;
    struct list members;
    struct redis_endpoint server;
    bool known;                /* `server` is valid; always true without Sentinels */
    bool moved;                /* `server` comes from a MOVED reply */
    size_t next;               /* index of the endpoint to try if `server` fails */
    struct redis *sentinel;    /* the connection to a Sentinel; NULL if the address names servers */
    struct route *sentinels;   /* selects the next Sentinel */
    bool started;              /* redis_start was called for `sentinel` */
    bool asking;               /* the master is asked for, and not known yet */
    bool closing;
    void (*closed)(void *context);
    void *closed_context;
};

static struct route_member *member_of(struct list_node *node)
{
    return container_of(node, struct route_member, node);
}

static void set_server(struct route *route, const struct redis_endpoint *server)
{
    route->server = *server;
    route->known = true;
    list_each(node, &route->members)
        member_of(node)->changed(member_of(node)->context);
}

static void use_next(struct route *route)
{
    route->server = route->address.endpoints[route->next];
    route->next = (route->next + 1) % route->address.count;
    route->moved = false;
    route->known = true;
}

/* ---- Sentinels ---------------------------------------------------------------------------- */

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING;
}

static bool note_master(struct route *route, const char *host, const char *port)
{
    struct redis_endpoint master;
    if (!redis_endpoint_set(&master, host, port)) /* uncovered: sentinel */
        return false;
    route->asking = false;
    redis_mark_healthy(route->sentinel);
    redis_reset_backoff(route->sentinel);
    set_server(route, &master);
    return true;
}

static void master_answered(void *context, redisReply *reply)
{
    struct route *route = context;
    char text[ERROR_TEXT_MAX];
    if (!reply)
        return;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && is_text(reply->element[0]) &&
        is_text(reply->element[1]) &&
        note_master(route, reply->element[0]->str, reply->element[1]->str))
        return;
    if (reply->type == REDIS_REPLY_ERROR) /* uncovered: sentinel */
        snprintf(text, sizeof text, "%.200s", reply->str);
    else if (reply->type == REDIS_REPLY_NIL)
        snprintf(text, sizeof text, "it knows no master named %s", route->address.master);
    else
        snprintf(text, sizeof text, "a reply of an unexpected form");
    redis_drop(route->sentinel, text);
}

static void subscribed(void *context, redisReply *reply)
{
    struct route *route = context;
    if (reply && reply->type == REDIS_REPLY_ERROR) /* uncovered: sentinel */
        redis_drop(route->sentinel, reply->str);
}

static void sentinel_up(void *context)
{
    struct route *route = context;
    route->asking = true;
    if (!redis_ask(route->sentinel, 0, master_answered, route,
                   "SENTINEL GET-MASTER-ADDR-BY-NAME %s", route->address.master) ||
        !redis_ask(route->sentinel, 0, subscribed, route, "SUBSCRIBE +switch-master"))
        redis_drop(route->sentinel, "memory is short"); /* uncovered: memory */
}

static void sentinel_down(void *context, const char *reason)
{
    struct route *route = context;
    char text[ERROR_TEXT_MAX];
    if (!route->asking || route->closing)
        return;
    snprintf(text, sizeof text, "no Sentinel has named the master yet: %.250s", reason);
    list_each(node, &route->members)
        member_of(node)->unresolved(member_of(node)->context, text);
}

/* message: {"message", channel, "MASTER old-host old-port host port"}, after a failover. */
static void sentinel_pushed(void *context, const redisReply *message)
{
    struct route *route = context;
    char name[REDIS_MASTER_BYTES_MAX], host[256], port[8];
    if (message->elements == 3 && is_text(message->element[2]) &&
        sscanf(message->element[2]->str, "%127s %*s %*s %255s %7s", name, host, port) == 3 &&
        strcmp(name, route->address.master) == 0)
        note_master(route, host, port);
}

/* Asks a Sentinel for the master. Each further call asks the next Sentinel, because the master that
 * the last one named was not usable. The connection to the Sentinel stays, to learn of a failover.
 */
static void ask_sentinels(struct route *route)
{
    if (route->asking || route->closing)
        return;
    if (!route->started)
        redis_start(route->sentinel);
    else if (redis_up(route->sentinel))
        redis_drop(route->sentinel, "asking another Sentinel");
    route->started = true;
    route->asking = true; /* only now: redis_drop must not call `unresolved` */
}

static bool create_sentinel(struct route *route, uv_loop_t *loop,
                            const struct redis_options *options)
{
    const struct redis_events events = {route, sentinel_up, sentinel_down, sentinel_pushed};
    struct redis_address endpoints = route->address;
    endpoints.master[0] = '\0';
    route->sentinels = route_create(loop, &endpoints, options);
    const struct redis_options connect = {.route = route->sentinels,
                                          .conf = options->conf,
                                          .is_sentinel = true,
                                          .random_state = options->random_state};
    route->sentinel = route->sentinels ? redis_create(loop, &connect, &events) : NULL;
    return route->sentinel != NULL;
}

/* ---- the route ---------------------------------------------------------------------------- */

struct route *route_create(uv_loop_t *loop, const struct redis_address *address,
                           const struct redis_options *options)
{
    struct route *route = calloc(1, sizeof *route);
    if (!route) /* uncovered: memory */
        return NULL;
    route->address = *address;
    list_init(&route->members);
    if (!*address->master) {
        use_next(route);
    } else if (!create_sentinel(route, loop, options)) { /* uncovered: memory */
        free(route->sentinels);
        free(route);
        return NULL;
    }
    return route;
}

void route_join(struct route *route, struct route_member *member)
{
    list_push(&route->members, &member->node);
}

void route_leave(struct route *route, struct route_member *member)
{
    list_remove(&route->members, &member->node);
}

bool route_server(struct route *route, struct redis_endpoint *endpoint)
{
    if (!route->known)
        ask_sentinels(route);
    *endpoint = route->server;
    return route->known;
}

bool route_is_server(const struct route *route, const struct redis_endpoint *endpoint)
{
    return route->known && redis_endpoint_equal(&route->server, endpoint);
}

bool route_requires_master(const struct route *route)
{
    return route->sentinel != NULL;
}

const struct redis_address *route_address(const struct route *route)
{
    return &route->address;
}

bool route_varies(const struct route *route)
{
    return route->sentinel || route->moved || route->address.count > 1;
}

void route_failed(struct route *route, const struct redis_endpoint *endpoint, bool lost)
{
    if (!route_is_server(route, endpoint))
        return; /* another member reported it before */
    if (route->sentinel)
        route->known = false;
    else if (!lost)
        use_next(route);
}

bool route_moved(struct route *route, const struct redis_endpoint *from, const char *text)
{
    struct redis_endpoint to;
    const char *space = strchr(text, ' ');
    if (route->sentinel || !space) /* uncovered: sentinel */
        return false;
    if (space[1] == ':' && !from->is_unix) { /* uncovered: sentinel */
        if (!redis_endpoint_set(&to, from->host, space + 2))
            return false;
    } else if (space[1] == '?' || !redis_endpoint_read(&to, space + 1)) { /* uncovered: sentinel */
        return false;
    }
    if (redis_endpoint_equal(&to, from)) /* uncovered: sentinel */
        return false;
    route->moved = true;
    set_server(route, &to);
    return true;
}

static void finish(void *context)
{
    struct route *route = context;
    void (*closed)(void *context) = route->closed;
    void *closed_context = route->closed_context;
    free(route->sentinels);
    free(route);
    closed(closed_context);
}

void route_close(struct route *route, void (*closed)(void *context), void *context)
{
    assert(list_empty(&route->members));
    route->closing = true;
    route->closed = closed;
    route->closed_context = context;
    if (route->sentinel)
        redis_close(route->sentinel, finish, route);
    else
        finish(route);
}
