/*
 * sentinel.h - asks Redis Sentinels for the address of the master.
 *
 * Sentinels are asked in turn. The client stays subscribed to the Sentinel that answered, to learn
 * of a failover. Loop thread only.
 */
#ifndef GPUIMGD_QUEUE_REDIS_SENTINEL_H
#define GPUIMGD_QUEUE_REDIS_SENTINEL_H

#include <uv.h>

#include "queue/redis/connection.h"

struct sentinel;

struct sentinel_events {
    void *context;
    /* The answer to sentinel_ask, or the new master after a failover. */
    void (*master_found)(void *context, const struct redis_endpoint *master);
    /* A Sentinel did not answer and the next one is asked. `reason` is a sentence. */
    void (*no_answer)(void *context, const char *reason);
};

/* `options` says how to connect. Its strings are copied; its route and name are ignored. Returns
 * NULL if memory is short. */
struct sentinel *sentinel_create(uv_loop_t *loop, const struct redis_address *address,
                                 const struct redis_options *options,
                                 const struct sentinel_events *events);
/* Starts a query; events follow from the loop until `master_found`. A second query goes to the next
 * Sentinel, because the last answer led to no usable master. */
void sentinel_ask(struct sentinel *sentinel);
/* Stops all events. `closed` runs from the loop after the struct has been freed. */
void sentinel_close(struct sentinel *sentinel, void (*closed)(void *context), void *context);

#endif
