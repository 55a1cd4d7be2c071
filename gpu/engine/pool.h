/*
 * pool.h - reusable memory within a byte budget.
 *
 * A pool takes memory from its backend (pinned host memory, device memory, plain pages) in
 * segments, hands out pieces of them, and keeps what comes back: in steady state nothing is
 * allocated, freed or page-faulted. Its sum never passes the budget. Bookkeeping lives on the
 * host, so the addresses may be a device's. Thread-safe; a take never blocks.
 */
#ifndef GPUIMGD_GPU_ENGINE_POOL_H
#define GPUIMGD_GPU_ENGINE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pool;

/* alloc returns NULL when there is none; both are called with the pool's lock held. */
struct pool_backend {
    void *(*alloc)(void *context, size_t bytes);
    void (*free)(void *context, void *memory, size_t bytes);
    void *context;
};

/* memory == NULL: holds nothing (a block of zero bytes is such a one). */
struct pool_block {
    void *memory;
    size_t bytes;
    struct pool_segment *segment;
};

/* The next multiple of BUFFER_ALIGN: what is handed out, and where parts of it begin. */
/* Populated (prefaulted) anonymous pages, huge where the kernel has them. */
extern const struct pool_backend pool_backend_pages;

/* budget and segment_bytes in bytes. NULL when memory is short. */
struct pool *pool_create(const char *name, size_t budget, size_t segment_bytes,
                         const struct pool_backend *backend);
/* All blocks must have come back. Takes NULL. */
void pool_destroy(struct pool *pool);

/* Whether a request of this size can ever be met (size <= budget, alignment counted). */
bool pool_fits(const struct pool *pool, size_t bytes);
/* Whether a take of this size would find room now in what the pool holds already. */
bool pool_has_room(const struct pool *pool, size_t bytes);
/* Takes `bytes`, aligned to BUFFER_ALIGN. false: not now, try again after a give (or the backend
 * has no more although the budget would allow it; *exhausted, where not NULL, then says that
 * nothing is in use, so that waiting cannot help). */
bool pool_take(struct pool *pool, size_t bytes, struct pool_block *block, bool *exhausted);
/* Gives a block back and clears it; a cleared block is ignored. */
void pool_give(struct pool *pool, struct pool_block *block);

struct pool_usage {
    size_t budget;   /* bytes */
    size_t held;     /* taken from the backend */
    size_t used;     /* handed out */
};
struct pool_usage pool_usage(const struct pool *pool);
const char *pool_name(const struct pool *pool);

#ifdef __cplusplus
}
#endif
#endif
