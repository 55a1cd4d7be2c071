/*
 * pool.c - allocates blocks in segments of memory: first fit, at the lowest address.
 *
 * A segment is memory from the backend. A piece is a part of a segment that a block uses. Segments
 * are ordered by address, and pieces by their offset.
 */
#include "gpu/engine/pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codecs/image.h"
#include "conf/list.h"

struct pool_segment {
    struct list_node node;
    uint8_t *memory;
    size_t bytes;
    struct list pieces; /* ordered by offset */
};

/* A used part of a segment. The memory between two pieces, a gap, is free. */
struct pool_piece {
    struct list_node node;
    struct pool_segment *segment;
    size_t offset, bytes;
};

struct pool {
    const char *name;
    size_t budget, segment_bytes;
    struct pool_backend backend;
    pthread_mutex_t lock; /* guards all members below */
    size_t held, used;
    struct list segments; /* ordered by address */
};

struct pool *pool_create(const char *name, size_t budget, size_t segment_bytes,
                         const struct pool_backend *backend)
{
    struct pool *pool = calloc(1, sizeof(*pool));
    if (!pool) /* uncovered: memory */
        return NULL;
    pool->name = name;
    pool->budget = budget / BUFFER_ALIGN * BUFFER_ALIGN;
    pool->segment_bytes = buffer_align(segment_bytes);
    pool->backend = *backend;
    pthread_mutex_init(&pool->lock, NULL);
    list_init(&pool->segments);
    return pool;
}

static void segment_destroy(const struct pool *pool, struct pool_segment *segment)
{
    pool->backend.free(pool->backend.context, segment->memory, segment->bytes);
    free(segment);
}

/* Frees segments without pieces until the pool holds at most held_max bytes, or none is left. */
static void pool_drop_idle(struct pool *pool, size_t held_max)
{
    list_each_safe(node, after, &pool->segments)
    {
        struct pool_segment *segment = container_of(node, struct pool_segment, node);
        if (pool->held <= held_max || !list_empty(&segment->pieces))
            continue;
        list_remove(&pool->segments, &segment->node);
        pool->held -= segment->bytes;
        segment_destroy(pool, segment);
    }
}

void pool_destroy(struct pool *pool)
{
    if (!pool)
        return;
    assert(pool->used == 0);
    pool_drop_idle(pool, 0);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

bool pool_fits(const struct pool *pool, size_t bytes)
{
    return bytes <= pool->budget && buffer_align(bytes) <= pool->budget;
}

/* Finds the lowest gap of at least `bytes` in the segment and sets *offset to its start. Returns
 * the list node after the gap: a piece's, or the list's head. NULL: there is no such gap. */
static struct list_node *segment_gap(struct pool_segment *segment, size_t bytes, size_t *offset)
{
    size_t start = 0;
    list_each(node, &segment->pieces)
    {
        const struct pool_piece *piece = container_of(node, struct pool_piece, node);
        if (piece->offset - start >= bytes) {
            *offset = start;
            return node;
        }
        start = piece->offset + piece->bytes;
    }
    *offset = start;
    return segment->bytes - start >= bytes ? &segment->pieces.head : NULL;
}

/* NULL: out of memory. */
static struct pool_segment *segment_create(const struct pool *pool, size_t bytes)
{
    struct pool_segment *segment = calloc(1, sizeof(*segment));
    if (!segment) /* uncovered: memory */
        return NULL;
    segment->memory = pool->backend.alloc(pool->backend.context, bytes);
    if (!segment->memory) {
        free(segment);
        return NULL;
    }
    segment->bytes = bytes;
    list_init(&segment->pieces);
    return segment;
}

static void pool_insert(struct pool *pool, struct pool_segment *segment)
{
    struct list_node *at = pool->segments.head.next;
    while (at != &pool->segments.head &&
           container_of(at, struct pool_segment, node)->memory < segment->memory)
        at = at->next;
    list_insert_before(&pool->segments, at, &segment->node);
    pool->held += segment->bytes;
}

/* Adds a segment of at least `bytes`. The caller has checked the budget. NULL: out of memory. */
static struct pool_segment *pool_grow(struct pool *pool, size_t bytes)
{
    size_t wanted = bytes > pool->segment_bytes ? bytes : pool->segment_bytes;
    if (wanted > pool->budget - pool->held)
        wanted = pool->budget - pool->held;
    struct pool_segment *segment = segment_create(pool, wanted);
    if (!segment && wanted > bytes)
        segment = segment_create(pool, bytes);
    if (segment)
        pool_insert(pool, segment);
    return segment;
}

/* The size of all segments that have pieces. */
static size_t pool_busy(const struct pool *pool)
{
    size_t busy = 0;
    list_each(node, &pool->segments)
    {
        const struct pool_segment *segment = container_of(node, struct pool_segment, node);
        busy += list_empty(&segment->pieces) ? 0 : segment->bytes;
    }
    return busy;
}

/* The segment with the lowest address that has a gap for `bytes`, or NULL. */
static struct pool_segment *pool_gap(const struct pool *pool, size_t bytes)
{
    size_t offset;
    list_each(node, &pool->segments)
    {
        struct pool_segment *segment = container_of(node, struct pool_segment, node);
        if (segment_gap(segment, bytes, &offset))
            return segment;
    }
    return NULL;
}

/* Returns a segment that has a gap for `bytes`, or adds one. If the budget does not allow another
 * segment, or the backend has no memory, frees segments without pieces first. NULL: out of memory,
 * or other pieces must be freed first. */
static struct pool_segment *pool_find(struct pool *pool, size_t bytes)
{
    struct pool_segment *segment = pool_gap(pool, bytes);
    if (!segment && bytes <= pool->budget - pool->held)
        segment = pool_grow(pool, bytes);
    if (!segment && bytes <= pool->budget - pool_busy(pool) && pool_busy(pool) < pool->held) {
        pool_drop_idle(pool, pool->budget - bytes);
        segment = pool_grow(pool, bytes);
        if (!segment) {
            pool_drop_idle(pool, 0); /* the backend is out of memory */
            segment = pool_grow(pool, bytes);
        }
    }
    return segment;
}

static bool pool_take_locked(struct pool *pool, size_t bytes, struct pool_block *block)
{
    struct pool_segment *segment = pool_find(pool, bytes);
    struct pool_piece *piece = segment ? calloc(1, sizeof(*piece)) : NULL;
    if (!piece)
        return false;
    struct list_node *before = segment_gap(segment, bytes, &piece->offset);
    piece->segment = segment;
    piece->bytes = bytes;
    list_insert_before(&segment->pieces, before, &piece->node);
    pool->used += bytes;
    *block = (struct pool_block){segment->memory + piece->offset, bytes, piece};
    return true;
}

bool pool_has_room(const struct pool *pool, size_t bytes)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&pool->lock;
    pthread_mutex_lock(lock);
    bool has = pool_gap(pool, buffer_align(bytes)) != NULL;
    pthread_mutex_unlock(lock);
    return has;
}

bool pool_take(struct pool *pool, size_t bytes, struct pool_block *block, bool *exhausted)
{
    return pool_take_beside(pool, bytes, 0, block, exhausted);
}

bool pool_take_beside(struct pool *pool, size_t bytes, size_t held, struct pool_block *block,
                      bool *exhausted)
{
    *block = (struct pool_block){0};
    pthread_mutex_lock(&pool->lock);
    bool fits = pool_fits(pool, bytes);
    bool taken = bytes == 0 || (fits && pool_take_locked(pool, buffer_align(bytes), block));
    if (exhausted)
        *exhausted = !taken && (!fits || pool->used == held);
    pthread_mutex_unlock(&pool->lock);
    return taken;
}

void pool_give(struct pool *pool, struct pool_block *block)
{
    struct pool_piece *piece = block->piece;
    if (!piece)
        return;
    pthread_mutex_lock(&pool->lock);
    list_remove(&piece->segment->pieces, &piece->node);
    pool->used -= piece->bytes;
    pthread_mutex_unlock(&pool->lock);
    free(piece);
    *block = (struct pool_block){0};
}

struct pool_usage pool_usage(const struct pool *pool)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&pool->lock;
    pthread_mutex_lock(lock);
    struct pool_usage usage = {.budget = pool->budget, .held = pool->held, .used = pool->used};
    pthread_mutex_unlock(lock);
    return usage;
}

const char *pool_name(const struct pool *pool)
{
    return pool->name;
}

/* ---- plain pages ---- */

static void *pages_alloc(void *context, size_t bytes)
{
    (void)context;
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) /* uncovered: memory */
        return NULL;
    /* Huge pages save page faults and TLB misses if the kernel grants them. */
    madvise(memory, bytes, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0)
        return memory;
    if (errno != EINVAL) {     /* EINVAL: an old kernel. Otherwise there is no memory. */
        munmap(memory, bytes); /* uncovered: machine */
        return NULL;
    }
#endif
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < bytes; at += page)
        *(volatile uint8_t *)(memory + at) = 0;
    return memory;
}

static void pages_free(void *context, void *memory, size_t bytes)
{
    (void)context;
    munmap(memory, bytes);
}

const struct pool_backend pool_backend_pages = {.alloc = pages_alloc, .free = pages_free};
