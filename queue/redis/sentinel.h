/*
 * sentinel.h - asks Redis Sentinels, one after the other, who the master is, and hears from the one
 * that answered when that changes. Loop thread only.
 */
#ifndef GPUIMGD_QUEUE_REDIS_SENTINEL_H
#define GPUIMGD_QUEUE_REDIS_SENTINEL_H

#include <uv.h>

#include "queue/redis/connection.h"

struct sentinel;

struct sentinel_events {
    void *context;
    /* The answer to sentinel_ask, or news that nobody asked for. */
    void (*master_found)(void *context, const struct redis_endpoint *master);
    /* One Sentinel gave no answer, and the next one is asked: why, a sentence. */
    void (*no_answer)(void *context, const char *reason);
};

/* NULL when memory is short. options: how to connect; its route and name are not looked at, and of
 * its strings there are copies. */
struct sentinel *sentinel_create(uv_loop_t *loop, const struct redis_address *address,
                                 const struct redis_options *options,
                                 const struct sentinel_events *events);
/* Events come from the loop, until `named` has come. Asked again, it takes the next Sentinel: what
 * the last one said was of no use. */
void sentinel_ask(struct sentinel *sentinel);
/* closed comes from the loop; the struct is gone then. No event comes any more. */
void sentinel_close(struct sentinel *sentinel, void (*closed)(void *context), void *context);

#endif
