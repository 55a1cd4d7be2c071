/* shard.h - the shards of a namespace: which one a job belongs to, and the options of each.
 *
 * With `shards = N`, N of 2 or more, shard i is a full queue with the namespace {NS:i}. Its Redis
 * is address i mod G of the G addresses in the option `redis`. With `shards = 1` the only shard has
 * the namespace and the address of the options, unchanged. All functions may be called on any
 * thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "conf/limits.h" /* SHARDS_MAX */
#include "conf/options.h"
#include "conf/status.h"

/* The shard of jobs with this id: zlib's crc32 of its bytes, mod `shards`. Clients in other
 * languages compute the same (PROTOCOL.md). */
uint32_t shard_of_id(const char *id, size_t bytes, uint32_t shards);

/* Copies `all` and replaces namespace and redis by those of the shard. Call options_clear in any
 * case. Needs options that shard_check has accepted. */
bool shard_options(struct options *shard, const struct options *all, uint32_t index,
                   struct error *error) MUST_CHECK;

/* Whether an address is on this host (redis_address_is_local). */
bool shard_is_local(const struct options *all);

/* Returns false and sets `error` if an address cannot be parsed, if there are more addresses than
 * shards, or if the namespace has braces in the wrong places. */
bool shard_check(const struct options *all, struct error *error) MUST_CHECK;
