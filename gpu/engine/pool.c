/*
 * pool.c - allocates blocks in segments of memory: first fit, at the lowest address.
 *
 * A segment is memory from the backend. It consists of pieces: blocks that are used, and gaps.
 * Between two gaps there is at least one block. The gaps of all segments are in one tree
 * (gap.h), because thousands of blocks may be used at a time.
 *
 * A small block has the size of a class, and goes to the shelf of its class when
 * it is given back, from which the next request of the class takes it. So threads do not search the
 * tree, and hold a lock for a moment only. If the tree has no gap for a request, all shelves are
 * cleared into it before the pool grows. So shelves never make a request fail.
 *
 * Locks, in the order in which a thread may take them: the pool's, a shelf's.
 */
#include "gpu/engine/pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codecs/image.h"
#include "conf/list.h"
#include "conf/lock.h"
#include "gpu/engine/gap.h"

struct pool_segment {
    struct list_node node;
    uint8_t *memory;
    size_t bytes, used;
};

/* A block, or a gap. */
struct pool_piece {
    struct gap gap; /* memory and bytes are set for a block, too */
    struct pool_segment *segment;
    struct pool_piece *next; /* if it is spare, or on a shelf */
};

#define SHELF_BLOCK_MAX (4 * MIB)
/* Sizes up to CLASS_STEPS * BUFFER_ALIGN are classes of their own. Each power of two after it has
 * CLASS_STEPS classes, so a block is larger than the request by an eighth at most. */
#define CLASS_STEPS 8
#define CLASSES     (12 * CLASS_STEPS)
static_assert((uint64_t)CLASS_STEPS * BUFFER_ALIGN << (CLASSES / CLASS_STEPS - 1) ==
                  SHELF_BLOCK_MAX,
              "the last class has the largest blocks");
/* The part of the budget that may be on shelves; and that of the largest block with a class, which
 * may be less than SHELF_BLOCK_MAX: in a little pool no request fails because blocks are larger
 * than asked for. */
#define SHELVED_PART     8
#define SHELF_BLOCK_PART 64

struct shelf {
    alignas(64) pthread_mutex_t lock; /* guards `blocks`, and `next` of these */
    struct pool_piece *blocks;
};

struct pool {
    const char *name;
    size_t budget, segment_bytes;
    struct pool_backend backend;
    pthread_mutex_t lock; /* guards all members below */
    size_t held, used;
    struct list segments; /* ordered by address */
    struct gap *gaps;
    struct pool_piece *spare; /* kept for later blocks */
    size_t class_bytes_max;   /* of a block that has a class; needs no lock */
    _Atomic size_t shelved;   /* bytes of `used` that are on shelves; needs no lock */
    struct shelf shelves[CLASSES];
};

static struct pool_piece *piece_of(struct gap *gap)
{
    return gap ? container_of(gap, struct pool_piece, gap) : NULL;
}

struct pool *pool_create(const char *name, size_t budget, size_t segment_bytes,
                         const struct pool_backend *backend)
{
    struct pool *pool = aligned_alloc(alignof(struct pool), sizeof *pool);
    if (!pool) /* uncovered: memory */
        return NULL;
    memset(pool, 0, sizeof *pool);
    pool->name = name;
    pool->budget = budget / BUFFER_ALIGN * BUFFER_ALIGN;
    pool->segment_bytes = buffer_align(segment_bytes);
    pool->backend = *backend;
    pool->class_bytes_max = pool->budget / SHELF_BLOCK_PART;
    if (pool->class_bytes_max > SHELF_BLOCK_MAX)
        pool->class_bytes_max = SHELF_BLOCK_MAX;
    lock_init(&pool->lock);
    for (int i = 0; i < CLASSES; i++)
        lock_init(&pool->shelves[i].lock);
    list_init(&pool->segments);
    return pool;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* NULL: out of memory. */
static struct pool_piece *piece_take(struct pool *pool)
{
    struct pool_piece *piece = pool->spare;
    if (!piece)
        return calloc(1, sizeof *piece);
    pool->spare = piece->next;
    return piece;
}

static void piece_drop(struct pool *pool, struct pool_piece *piece)
{
    piece->next = pool->spare;
    pool->spare = piece;
}

/* Makes the beginning of a gap a block. The last `bytes` of a gap need no new piece. NULL: out of
 * memory. */
static struct pool_piece *piece_cut(struct pool *pool, struct pool_piece *from, size_t bytes)
{
    struct gap *gap = &from->gap;
    if (gap->bytes == bytes) {
        gap_remove(&pool->gaps, gap);
        return from;
    }
    struct pool_piece *piece = piece_take(pool);
    if (!piece) /* uncovered: memory */
        return NULL;
    piece->gap.memory = gap->memory;
    piece->gap.bytes = bytes;
    piece->segment = from->segment;
    gap_resize(&pool->gaps, gap, gap->memory + bytes, gap->bytes - bytes);
    return piece;
}

/* Makes a block a gap, or a part of the gaps beside it. */
static void piece_free(struct pool *pool, struct pool_piece *piece)
{
    uint8_t *memory = piece->gap.memory, *end = memory + piece->gap.bytes;
    struct pool_piece *before = piece_of(gap_before(pool->gaps, memory));
    struct pool_piece *after = piece_of(gap_from(pool->gaps, memory));
    if (before && (before->segment != piece->segment ||
                   before->gap.memory + before->gap.bytes != memory))
        before = NULL;
    if (after && (after->segment != piece->segment || after->gap.memory != end))
        after = NULL;
    if (before && after) {
        end += after->gap.bytes;
        gap_remove(&pool->gaps, &after->gap);
        piece_drop(pool, after);
    }
    if (before)
        gap_resize(&pool->gaps, &before->gap, before->gap.memory,
                   (size_t)(end - before->gap.memory));
    else if (after)
        gap_resize(&pool->gaps, &after->gap, memory, piece->gap.bytes + after->gap.bytes);
    else
        gap_insert(&pool->gaps, &piece->gap);
    if (before || after)
        piece_drop(pool, piece);
}

/* ---- shelves --------------------------------------------------------------------------------- */

/* The class of a request, and in *size the size of its blocks. CLASSES: it has none. */
static uint32_t class_of(const struct pool *pool, size_t bytes, size_t *size)
{
    size_t units = buffer_align(bytes) / BUFFER_ALIGN, step = 1;
    uint32_t octave = 0;
    if (bytes > pool->class_bytes_max)
        return CLASSES;
    for (; units > step * CLASS_STEPS; octave++)
        step *= 2;
    step = octave > 0 ? step / 2 : 1;
    units = (units + step - 1) / step; /* of the first octave: 1 to 8; of others: 9 to 16 */
    *size = units * step * BUFFER_ALIGN;
    return octave > 0 ? (octave - 1) * CLASS_STEPS + (uint32_t)units - 1 : (uint32_t)units - 1;
}

void pool_use_no_shelves(struct pool *pool)
{
    pool->class_bytes_max = 0;
}

/* NULL: the shelf is empty. */
static struct pool_piece *shelf_take(struct pool *pool, struct shelf *shelf)
{
    pthread_mutex_lock(&shelf->lock);
    struct pool_piece *piece = shelf->blocks;
    if (piece)
        shelf->blocks = piece->next;
    pthread_mutex_unlock(&shelf->lock);
    if (piece)
        atomic_fetch_sub(&pool->shelved, piece->gap.bytes);
    return piece;
}

/* false: the block has not the size of a class, or the shelves have enough. */
static bool shelf_put(struct pool *pool, struct pool_piece *piece)
{
    size_t bytes = piece->gap.bytes, size = 0;
    uint32_t class = class_of(pool, bytes, &size);
    if (size != bytes || atomic_load(&pool->shelved) + bytes > pool->budget / SHELVED_PART)
        return false;
    struct shelf *shelf = &pool->shelves[class];
    atomic_fetch_add(&pool->shelved, bytes);
    pthread_mutex_lock(&shelf->lock);
    piece->next = shelf->blocks;
    shelf->blocks = piece;
    pthread_mutex_unlock(&shelf->lock);
    return true;
}

/* Call with the pool's lock held. */
static void pool_free(struct pool *pool, struct pool_piece *piece)
{
    piece->segment->used -= piece->gap.bytes;
    pool->used -= piece->gap.bytes;
    piece_free(pool, piece);
}

/* Call with the pool's lock held. Frees the blocks on all shelves. */
static void clear_shelves(struct pool *pool)
{
    struct pool_piece *piece;
    for (int i = 0; i < CLASSES && atomic_load(&pool->shelved) > 0; i++)
        while ((piece = shelf_take(pool, &pool->shelves[i])))
            pool_free(pool, piece);
}

/* Call with the pool's lock held. The lowest gap, NULL: there is none, also without shelves. */
static struct gap *pool_gap(struct pool *pool, size_t bytes)
{
    struct gap *gap = gap_lowest(pool->gaps, bytes);
    if (gap || atomic_load(&pool->shelved) == 0)
        return gap;
    clear_shelves(pool);
    return gap_lowest(pool->gaps, bytes);
}

/* ---- segments -------------------------------------------------------------------------------- */

static void segment_destroy(const struct pool *pool, struct pool_segment *segment)
{
    pool->backend.free(pool->backend.context, segment->memory, segment->bytes);
    free(segment);
}

/* Frees segments without blocks until the pool holds at most held_max bytes, or none is left. */
static void pool_drop_idle(struct pool *pool, size_t held_max)
{
    list_each_safe(node, after, &pool->segments)
    {
        struct pool_segment *segment = container_of(node, struct pool_segment, node);
        if (pool->held <= held_max || segment->used > 0)
            continue;
        struct gap *gap = gap_from(pool->gaps, segment->memory); /* the whole segment */
        gap_remove(&pool->gaps, gap);
        piece_drop(pool, piece_of(gap));
        list_remove(&pool->segments, &segment->node);
        pool->held -= segment->bytes;
        segment_destroy(pool, segment);
    }
}

void pool_destroy(struct pool *pool)
{
    if (!pool)
        return;
    clear_shelves(pool);
    assert(pool->used == 0);
    pool_drop_idle(pool, 0);
    for (struct pool_piece *piece; (piece = pool->spare);) {
        pool->spare = piece->next;
        free(piece);
    }
    for (int i = 0; i < CLASSES; i++)
        pthread_mutex_destroy(&pool->shelves[i].lock);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

bool pool_fits(const struct pool *pool, size_t bytes)
{
    return bytes <= pool->budget && buffer_align(bytes) <= pool->budget;
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

/* Adds a segment of at least `bytes`, and returns its gap. The caller has checked the budget. NULL:
 * out of memory. */
static struct pool_piece *pool_grow(struct pool *pool, size_t bytes)
{
    size_t wanted = bytes > pool->segment_bytes ? bytes : pool->segment_bytes;
    if (wanted > pool->budget - pool->held)
        wanted = pool->budget - pool->held;
    struct pool_piece *piece = piece_take(pool);
    struct pool_segment *segment = piece ? segment_create(pool, wanted) : NULL;
    if (!segment && piece && wanted > bytes)
        segment = segment_create(pool, bytes);
    if (!segment) {
        if (piece)
            piece_drop(pool, piece);
        return NULL;
    }
    pool_insert(pool, segment);
    piece->gap.memory = segment->memory;
    piece->gap.bytes = segment->bytes;
    piece->segment = segment;
    gap_insert(&pool->gaps, &piece->gap);
    return piece;
}

/* The size of all segments that have blocks. */
static size_t pool_busy(const struct pool *pool)
{
    size_t busy = 0;
    list_each(node, &pool->segments)
    {
        const struct pool_segment *segment = container_of(node, struct pool_segment, node);
        busy += segment->used > 0 ? segment->bytes : 0;
    }
    return busy;
}

/* Returns the lowest gap for `bytes`, or adds a segment. If the budget does not allow another
 * segment, or the backend has no memory, frees segments without blocks first. NULL: out of memory,
 * or other blocks must be freed first. */
static struct pool_piece *pool_find(struct pool *pool, size_t bytes)
{
    struct pool_piece *gap = piece_of(pool_gap(pool, bytes));
    if (!gap && bytes <= pool->budget - pool->held)
        gap = pool_grow(pool, bytes);
    if (!gap && bytes <= pool->budget - pool_busy(pool) && pool_busy(pool) < pool->held) {
        pool_drop_idle(pool, pool->budget - bytes);
        gap = pool_grow(pool, bytes);
        if (!gap) {
            pool_drop_idle(pool, 0); /* the backend is out of memory */
            gap = pool_grow(pool, bytes);
        }
    }
    return gap;
}

/* NULL: there is not enough free memory. */
static struct pool_piece *pool_take_locked(struct pool *pool, size_t bytes)
{
    struct pool_piece *gap = pool_find(pool, bytes);
    struct pool_piece *piece = gap ? piece_cut(pool, gap, bytes) : NULL;
    if (piece) {
        piece->segment->used += bytes;
        pool->used += bytes;
    }
    return piece;
}

bool pool_has_room(struct pool *pool, size_t bytes)
{
    pthread_mutex_lock(&pool->lock);
    bool has = pool_gap(pool, buffer_align(bytes)) != NULL;
    pthread_mutex_unlock(&pool->lock);
    return has;
}

bool pool_take(struct pool *pool, size_t bytes, struct pool_block *block, bool *exhausted)
{
    return pool_take_beside(pool, bytes, 0, block, exhausted);
}

/* `exhausted` is not about memory on shelves: who put it there after clear_shelves will tell those
 * that wait. */
bool pool_take_beside(struct pool *pool, size_t bytes, size_t held, struct pool_block *block,
                      bool *exhausted)
{
    bool fits = pool_fits(pool, bytes);
    struct pool_piece *piece = NULL;
    size_t size = 0;
    *block = (struct pool_block){0};
    if (exhausted)
        *exhausted = false;
    if (bytes == 0)
        return true;
    uint32_t class = class_of(pool, bytes, &size);
    if (fits && class < CLASSES)
        piece = shelf_take(pool, &pool->shelves[class]);
    if (!piece) {
        pthread_mutex_lock(&pool->lock);
        if (fits && class < CLASSES && pool_gap(pool, size))
            piece = pool_take_locked(pool, size);
        if (fits && !piece) /* in a gap of just this size, or in a new segment */
            piece = pool_take_locked(pool, buffer_align(bytes));
        if (exhausted)
            *exhausted = !piece && (!fits || pool->used == held);
        pthread_mutex_unlock(&pool->lock);
    }
    if (piece)
        *block = (struct pool_block){piece->gap.memory, piece->gap.bytes, piece};
    return piece != NULL;
}

void pool_give(struct pool *pool, struct pool_block *block)
{
    struct pool_piece *piece = block->piece;
    *block = (struct pool_block){0};
    if (!piece || shelf_put(pool, piece))
        return;
    pthread_mutex_lock(&pool->lock);
    pool_free(pool, piece);
    pthread_mutex_unlock(&pool->lock);
}

struct pool_usage pool_usage(const struct pool *pool)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&pool->lock;
    pthread_mutex_lock(lock);
    struct pool_usage usage = {.budget = pool->budget,
                               .held = pool->held,
                               .used = pool->used - atomic_load(&pool->shelved)};
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
