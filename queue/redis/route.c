#include "queue/redis/route.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "queue/redis/connection.h"
#include "queue/redis/sentinel.h"

struct route {
    struct redis_address address;
    struct sentinel *sentinel; /* NULL: the address names servers */
    struct list members;
    struct redis_point here;
    bool known;                /* here is good; always so without Sentinels */
    bool moved;                /* a Cluster sent us here */
    size_t next;               /* the point to try when here fails */
    void (*closed)(void *context);
    void *closed_context;
};

static struct route_member *member_of(struct list_node *node)
{
    return container_of(node, struct route_member, node);
}

static void turn(struct route *route, const struct redis_point *here)
{
    route->here = *here;
    route->known = true;
    list_each(node, &route->members)
        member_of(node)->turned(member_of(node)->context);
}

static void named(void *context, const struct redis_point *master)
{
    turn(context, master);
}

static void silent(void *context, const char *reason)
{
    struct route *route = context;
    list_each(node, &route->members)
        member_of(node)->lost(member_of(node)->context, reason);
}

static void take_next(struct route *route)
{
    route->here = route->address.points[route->next];
    route->next = (route->next + 1) % route->address.count;
    route->moved = false;
    route->known = true;
}

struct route *route_create(uv_loop_t *loop, const struct redis_address *address,
                           const struct redis_options *sentinel)
{
    struct route *route = calloc(1, sizeof *route);
    if (!route)
        return NULL;
    route->address = *address;
    list_init(&route->members);
    if (!*address->master) {
        take_next(route);
        return route;
    }
    struct sentinel_events events = {route, named, silent};
    route->sentinel = sentinel_create(loop, address, sentinel, &events);
    if (!route->sentinel) {
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

bool route_here(struct route *route, struct redis_point *point)
{
    if (!route->known)
        sentinel_ask(route->sentinel);
    *point = route->here;
    return route->known;
}

bool route_leads_to(const struct route *route, const struct redis_point *point)
{
    return route->known && redis_point_equal(&route->here, point);
}

bool route_wants_master(const struct route *route)
{
    return route->sentinel != NULL;
}

bool route_varies(const struct route *route)
{
    return route->sentinel || route->moved || route->address.count > 1;
}

void route_failed(struct route *route, const struct redis_point *point, bool lost)
{
    if (!route_leads_to(route, point))
        return; /* another member knew it before */
    if (route->sentinel)
        route->known = false;
    else if (!lost)
        take_next(route);
}

bool route_moved(struct route *route, const struct redis_point *from, const char *text)
{
    struct redis_point to;
    const char *space = strchr(text, ' ');
    if (route->sentinel || !space)
        return false;
    if (space[1] == ':' && !from->is_unix) {
        if (!redis_point_set(&to, from->host, space + 2))
            return false;
    } else if (space[1] == '?' || !redis_point_read(&to, space + 1)) {
        return false;
    }
    if (redis_point_equal(&to, from))
        return false;
    route->moved = true;
    turn(route, &to);
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
