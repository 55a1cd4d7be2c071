#include "queue/redis/route.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "queue/redis/connection.h"
#include "queue/redis/sentinel.h"

struct route {
    struct redis_address address;
    struct sentinel *sentinel; /* NULL if the address names servers */
    struct list members;
    struct redis_endpoint server;
    bool known;                /* `server` is valid; always true without Sentinels */
    bool moved;                /* `server` comes from a MOVED reply */
    size_t next;               /* index of the endpoint to try if `server` fails */
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

static void master_found(void *context, const struct redis_endpoint *master)
{
    set_server(context, master);
}

static void no_answer(void *context, const char *reason)
{
    struct route *route = context;
    list_each(node, &route->members)
        member_of(node)->unresolved(member_of(node)->context, reason);
}

static void use_next(struct route *route)
{
    route->server = route->address.endpoints[route->next];
    route->next = (route->next + 1) % route->address.count;
    route->moved = false;
    route->known = true;
}

struct route *route_create(uv_loop_t *loop, const struct redis_address *address,
                           const struct redis_options *sentinel)
{
    struct route *route = calloc(1, sizeof *route);
    if (!route) /* uncovered: memory */
        return NULL;
    route->address = *address;
    list_init(&route->members);
    if (!*address->master) {
        use_next(route);
        return route;
    }
    struct sentinel_events events = {route, master_found, no_answer};
    route->sentinel = sentinel_create(loop, address, sentinel, &events);
    if (!route->sentinel) { /* uncovered: memory */
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
        sentinel_ask(route->sentinel);
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

static void finish(struct route *route)
{
    void (*closed)(void *context) = route->closed;
    void *context = route->closed_context;
    free(route);
    closed(context);
}

static void sentinel_closed(void *context)
{
    finish(context);
}

void route_close(struct route *route, void (*closed)(void *context), void *context)
{
    assert(list_empty(&route->members));
    route->closed = closed;
    route->closed_context = context;
    if (route->sentinel)
        sentinel_close(route->sentinel, sentinel_closed, route);
    else
        finish(route);
}
