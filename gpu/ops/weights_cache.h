/*
 * weights_cache.h - keeps the tables of weights that were computed last.
 *
 * A table takes up to a millisecond of a core, most of it for sines, and services resize images of
 * few sizes to few others. The cache belongs to the process. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All that a table depends on. */
struct weights_key {
    double start, end;
    uint32_t outputs, at, total, origin, inputs, cut, taps;
    int filter;
    uint32_t bits;
};

/* Copies the table of the key to `to`. false: it is not in the cache. */
bool weights_cache_get(const struct weights_key *key, void *to, size_t bytes);
/* Keeps a copy of the table. Others may leave for it: those not used for longest. Does nothing if
 * there is no memory for it. */
void weights_cache_put(const struct weights_key *key, const void *table, size_t bytes);
