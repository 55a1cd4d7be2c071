/*
 * pool.h - a thread-safe memory pool with a byte budget.
 *
 * The pool allocates large segments from its backend (pinned host memory, device memory or plain
 * pages), hands out blocks in them, and keeps the segments for reuse. In steady state the pool thus
 * does not call the backend, and its pages cause no faults. The segments together never exceed the
 * budget. The pool's own data is outside of the segments, because the host cannot access device
 * memory. pool_take never waits until memory is free.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/limits.h"

struct pool;

/* Where a pool gets its segments. alloc returns NULL if there is no memory. A pool calls only one
 * of the functions at a time. */
struct pool_backend {
    void *(*alloc)(void *context, size_t bytes);
    void (*free)(void *context, void *memory, size_t bytes);
    void *context;
};

/* Memory from pool_take. memory == NULL: an empty block. */
struct pool_block {
    void *memory;
    size_t bytes;
    struct pool_piece *piece;
};

/* A backend of anonymous pages, which are prefaulted, and huge if the kernel has huge pages. */
extern const struct pool_backend pool_backend_pages;

/* budget: bytes of all segments, at most. segment_bytes: the size of a segment, unless a request is
 * larger. NULL: out of memory. */
struct pool *pool_create(const char *name, size_t budget, size_t segment_bytes,
                         const struct pool_backend *backend);
/* All blocks must have been given back. NULL is ignored. */
void pool_destroy(struct pool *pool);

/* Whether a request of this size can ever succeed: its aligned size is within the budget. */
bool pool_fits(const struct pool *pool, size_t bytes);
/* Whether a request of this size would succeed now without a new segment. */
bool pool_has_room(struct pool *pool, size_t bytes);
/* Takes a block of `bytes`, aligned to BUFFER_ALIGN. false: there is not enough free memory. The
 * caller may retry after a pool_give, unless *exhausted (optional) is true: then waiting cannot
 * help, because the request exceeds the budget, or failed although no block is in use. */
bool pool_take(struct pool *pool, size_t bytes, struct pool_block *block, bool *exhausted);
/* The same for a caller that already has blocks of `held` bytes in all: *exhausted is also true if
 * the request failed although no other blocks are in use. */
bool pool_take_beside(struct pool *pool, size_t bytes, size_t held, struct pool_block *block,
                      bool *exhausted);
/* Gives a block back and clears it. A cleared block is ignored. */
void pool_give(struct pool *pool, struct pool_block *block);

/* Call it before the first pool_take: each block that is given back is then a gap at once. For
 * tests of where blocks are. */
void pool_use_no_shelves(struct pool *pool);

/* In bytes. */
struct pool_usage {
    size_t budget;
    size_t held; /* in segments */
    size_t used; /* in blocks */
};
struct pool_usage pool_usage(const struct pool *pool);
const char *pool_name(const struct pool *pool);
