/*
 * fleet_reader.h - lets the HTTP thread read a page of the fleet through the loop, which owns the
 * connections to Redis.
 *
 * The HTTP thread asks and waits; the loop sends one call (queue/lease/fleet.h) and hands the reply
 * over. Only one call is outstanding at a time.
 */
#pragma once

#include <uv.h>

#include "queue/lease/fleet.h"

/* The HTTP thread waits no longer than this for Redis, because other requests wait meanwhile. */
#define FLEET_WAIT_MS 500

struct fleet_reader;

/* The group is borrowed until fleet_reader_stop. NULL: memory is short. */
struct fleet_reader *fleet_reader_create(uv_loop_t *loop, struct group *group);
/* On the loop: ends the wait of the HTTP thread, and all later ones. Idempotent. */
void fleet_reader_stop(struct fleet_reader *reader);
/* Call after fleet_reader_stop, when the handles of the loop are closed. Takes NULL. */
void fleet_reader_destroy(struct fleet_reader *reader);

/* On the HTTP thread: reads the page that begins with daemon `first`. The caller calls fleet_clear
 * and frees the result. NULL: `error` says why; it is not set if no shard's Redis answers in
 * time. */
struct fleet *fleet_reader_read(struct fleet_reader *reader, uint32_t first, struct error *error);
