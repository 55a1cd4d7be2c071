/* shard.h - computes the shard of a job, and the options of each shard.
 *
 * Shards share the jobs of a namespace NS. If the option `shards` is N, 2 or more, shard i is a
 * complete queue with the namespace {NS:i}. The option `redis` has G addresses; shard i is on the
 * address i mod G. With `shards = 1` the only shard has the namespace and the address of the
 * options, unchanged. All functions may be called on any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "conf/limits.h" /* SHARDS_MAX */
#include "conf/options.h"
#include "conf/status.h"

/* The shard of jobs with this id: zlib's crc32 of its bytes, mod `shards`. Clients in other
 * languages compute the same (PROTOCOL.md). */
uint32_t shard_of_id(const char *id, size_t bytes, uint32_t shards);

/* Copies `all`, which shard_check must have accepted, and replaces namespace and redis by those of
 * the shard. Call options_clear in any case. */
bool shard_options(struct options *shard, const struct options *all, uint32_t index,
                   struct error *error) MUST_CHECK;

/* Whether one of the addresses is on this host (redis_address_is_local). */
bool shard_is_local(const struct options *all);

/* Returns false and sets `error` if an address cannot be parsed, if there are more addresses than
 * shards, or if the namespace has braces in the wrong places. */
bool shard_check(const struct options *all, struct error *error) MUST_CHECK;
