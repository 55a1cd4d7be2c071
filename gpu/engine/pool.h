/*
 * pool.h - a thread-safe memory pool with a byte budget.
 *
 * The pool takes segments from its backend: pinned host memory, device memory or plain pages. It
 * hands out pieces of them and keeps the segments for reuse. In steady state the backend is not
 * called and no page faults. The segments never exceed the budget. All bookkeeping is in host
 * memory, because the backend's memory may be a device's. pool_take never blocks for memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/limits.h"

struct pool;

/* alloc returns NULL if it has no memory. A pool calls one function at a time. */
struct pool_backend {
    void *(*alloc)(void *context, size_t bytes);
    void (*free)(void *context, void *memory, size_t bytes);
    void *context;
};

/* memory == NULL: an empty block. */
struct pool_block {
    void *memory;
    size_t bytes;
    struct pool_piece *piece;
};

/* Anonymous pages, prefaulted, and huge if the kernel has huge pages. */
extern const struct pool_backend pool_backend_pages;

/* budget and segment_bytes are in bytes. NULL: out of memory. */
struct pool *pool_create(const char *name, size_t budget, size_t segment_bytes,
                         const struct pool_backend *backend);
/* All blocks must have been given back. NULL is ignored. */
void pool_destroy(struct pool *pool);

/* Whether a request of this size can ever succeed: its aligned size is within the budget. */
bool pool_fits(const struct pool *pool, size_t bytes);
/* Whether a request of this size would succeed now without a new segment. */
bool pool_has_room(const struct pool *pool, size_t bytes);
/* Takes `bytes`, aligned to BUFFER_ALIGN. Returns false if there is no room now; retry after a
 * pool_give. *exhausted (optional) is set if waiting cannot help: the request exceeds the budget,
 * or the backend has no memory although no block is in use. */
bool pool_take(struct pool *pool, size_t bytes, struct pool_block *block, bool *exhausted);
/* The same for a caller that already has blocks of `held` bytes: *exhausted is also set if no other
 * block is in use. */
bool pool_take_beside(struct pool *pool, size_t bytes, size_t held, struct pool_block *block,
                      bool *exhausted);
/* Gives a block back and clears it. A cleared block is ignored. */
void pool_give(struct pool *pool, struct pool_block *block);

struct pool_usage {
    size_t budget;   /* in bytes, as held and used */
    size_t held;     /* taken from the backend */
    size_t used;     /* handed out */
};
struct pool_usage pool_usage(const struct pool *pool);
const char *pool_name(const struct pool *pool);
