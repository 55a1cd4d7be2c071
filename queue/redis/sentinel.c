#include "queue/redis/sentinel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/redis/route.h"

struct sentinel {
    struct redis_address address;
    struct sentinel_events events;
    struct route *route;       /* selects the next Sentinel */
    struct redis *redis;
    bool started, asking, closing;
    void (*closed)(void *context);
    void *closed_context;
};

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING;
}

static bool report_master(struct sentinel *sentinel, const char *host, const char *port)
{
    struct redis_endpoint master;
    if (!redis_endpoint_set(&master, host, port)) /* uncovered: sentinel */
        return false;
    sentinel->asking = false;
    redis_mark_healthy(sentinel->redis);
    sentinel->events.master_found(sentinel->events.context, &master);
    return true;
}

static void answered(void *context, redisReply *reply)
{
    struct sentinel *sentinel = context;
    char text[ERROR_TEXT_MAX];
    if (!reply)
        return;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && is_text(reply->element[0]) &&
        is_text(reply->element[1]) &&
        report_master(sentinel, reply->element[0]->str, reply->element[1]->str))
        return;
    if (reply->type == REDIS_REPLY_ERROR) /* uncovered: sentinel */
        snprintf(text, sizeof text, "%.200s", reply->str);
    else if (reply->type == REDIS_REPLY_NIL)
        snprintf(text, sizeof text, "it knows no master named %s",
                 sentinel->address.master);
    else
        snprintf(text, sizeof text, "a reply of an unexpected form");
    redis_drop(sentinel->redis, text);
}

static void subscribed(void *context, redisReply *reply)
{
    struct sentinel *sentinel = context;
    if (reply && reply->type == REDIS_REPLY_ERROR) /* uncovered: sentinel */
        redis_drop(sentinel->redis, reply->str);
}

static void up(void *context)
{
    struct sentinel *sentinel = context;
    sentinel->asking = true;
    if (!redis_ask(sentinel->redis, 0, answered, sentinel,
                   "SENTINEL GET-MASTER-ADDR-BY-NAME %s", sentinel->address.master) ||
        !redis_ask(sentinel->redis, 0, subscribed, sentinel, "SUBSCRIBE +switch-master"))
        redis_drop(sentinel->redis, "memory is short"); /* uncovered: memory */
}

static void down(void *context, const char *reason)
{
    struct sentinel *sentinel = context;
    char text[ERROR_TEXT_MAX];
    if (!sentinel->asking || sentinel->closing)
        return;
    snprintf(text, sizeof text, "no Sentinel has named the master yet: %.250s", reason);
    sentinel->events.no_answer(sentinel->events.context, text);
}

/* {"message", channel, "MASTER old-host old-port host port"} */
static void pushed(void *context, const redisReply *message)
{
    struct sentinel *sentinel = context;
    char name[REDIS_MASTER_BYTES_MAX], host[256], port[8];
    if (message->elements == 3 && is_text(message->element[2]) &&
        sscanf(message->element[2]->str, "%127s %*s %*s %255s %7s", name, host, port) == 3 &&
        strcmp(name, sentinel->address.master) == 0)
        report_master(sentinel, host, port);
}

struct sentinel *sentinel_create(uv_loop_t *loop, const struct redis_address *address,
                                 const struct redis_options *options,
                                 const struct sentinel_events *events)
{
    struct sentinel *sentinel = calloc(1, sizeof *sentinel);
    if (!sentinel) /* uncovered: memory */
        return NULL;
    struct redis_address endpoints = *address;
    endpoints.master[0] = '\0';
    sentinel->address = *address;
    sentinel->events = *events;
    sentinel->route = route_create(loop, &endpoints, NULL);
    struct redis_options connect = *options;
    connect.route = sentinel->route;
    connect.name = "";
    struct redis_events of_redis = {sentinel, up, down, pushed};
    if (sentinel->route)
        sentinel->redis = redis_create(loop, &connect, &of_redis);
    if (sentinel->redis)
        return sentinel;
    if (sentinel->route) /* uncovered: memory */
        route_close(sentinel->route, free, sentinel);
    else
        free(sentinel);
    return NULL;
}

void sentinel_ask(struct sentinel *sentinel)
{
    if (sentinel->asking || sentinel->closing)
        return;
    if (!sentinel->started)
        redis_start(sentinel->redis);
    else if (redis_up(sentinel->redis))
        redis_drop(sentinel->redis, "asking another Sentinel");
    sentinel->started = true;
    sentinel->asking = true; /* after redis_drop, which must not report no_answer */
}

static void finish(void *context)
{
    struct sentinel *sentinel = context;
    void (*closed)(void *context) = sentinel->closed;
    void *closed_context = sentinel->closed_context;
    free(sentinel);
    closed(closed_context);
}

static void redis_closed(void *context)
{
    struct sentinel *sentinel = context;
    route_close(sentinel->route, finish, sentinel);
}

void sentinel_close(struct sentinel *sentinel, void (*closed)(void *context), void *context)
{
    sentinel->closing = true;
    sentinel->closed = closed;
    sentinel->closed_context = context;
    redis_close(sentinel->redis, redis_closed, sentinel);
}
