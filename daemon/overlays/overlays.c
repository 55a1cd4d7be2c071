#include "daemon/overlays/overlays.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024 /* for some thousand overlays */

struct overlays {
    struct pool *pool;
    size_t idle_bytes_max;
    pthread_mutex_t lock; /* guards the members below, and the overlays' private ones */
    struct list buckets[BUCKETS];
    struct list idle; /* overlays without references, least recently used first */
    size_t idle_bytes;
    uint64_t next_id;
};

struct overlays *overlays_create(struct pool *pool, size_t idle_bytes_max)
{
    struct overlays *overlays = calloc(1, sizeof *overlays);
    if (!overlays) /* uncovered: memory */
        return NULL;
    overlays->pool = pool;
    overlays->idle_bytes_max = idle_bytes_max;
    pthread_mutex_init(&overlays->lock, NULL);
    list_init(&overlays->idle);
    for (size_t i = 0; i < BUCKETS; i++)
        list_init(&overlays->buckets[i]);
    return overlays;
}

/* ---- eviction, under the lock --------------------------------------------------------------- */

static void evict(struct overlays *overlays, struct overlay *overlay)
{
    struct pool_block block = overlay->block;
    assert(overlay->references == 0);
    list_remove(&overlays->idle, &overlay->in_idle);
    list_remove(&overlays->buckets[overlay->bucket], &overlay->in_bucket);
    overlays->idle_bytes -= block.bytes;
    pool_give(overlays->pool, &block);
}

static bool evict_oldest(struct overlays *overlays)
{
    struct list_node *first = list_first(&overlays->idle);
    if (first)
        evict(overlays, container_of(first, struct overlay, in_idle));
    return first != NULL;
}

void overlays_destroy(struct overlays *overlays)
{
    if (!overlays)
        return;
    while (evict_oldest(overlays))
        continue;
    for (size_t i = 0; i < BUCKETS; i++)
        assert(list_empty(&overlays->buckets[i]));
    pthread_mutex_destroy(&overlays->lock);
    free(overlays);
}

bool overlays_take(struct overlays *overlays, size_t bytes, size_t held, struct pool_block *block,
                   bool *exhausted)
{
    if (pool_take_beside(overlays->pool, bytes, held, block, exhausted))
        return true;
    if (!pool_fits(overlays->pool, bytes))
        return false;
    bool evicted = true, taken = false;
    pthread_mutex_lock(&overlays->lock);
    while (!taken && evicted) {
        evicted = evict_oldest(overlays);
        taken = pool_take_beside(overlays->pool, bytes, held, block, exhausted);
    }
    pthread_mutex_unlock(&overlays->lock);
    return taken;
}

bool overlays_fit(const struct overlays *overlays, size_t bytes, size_t held)
{
    return pool_fits(overlays->pool, held > 0 ? held + 2 * bytes : bytes);
}

void overlays_give(struct overlays *overlays, struct pool_block *block)
{
    pool_give(overlays->pool, block);
}

/* ---- lookup --------------------------------------------------------------------------------- */

/* FNV-1a. Equal buckets only cost time: all of a name is compared. */
static uint32_t bucket_of(const void *bytes, size_t length, uint32_t more)
{
    uint64_t hash = 0xcbf29ce484222325u ^ more;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return (uint32_t)(hash >> 32) % BUCKETS;
}

/* All texts have the same key, and many begin with the same style. Of a value the first KiB and the
 * size are enough: equal ones are rare. */
static uint32_t bucket_for(const struct overlay *overlay)
{
    if (!overlay->key)
        return bucket_of(&overlay->id, sizeof overlay->id, overlay->asked_width);
    uint32_t key = bucket_of(overlay->key, strlen(overlay->key), (uint32_t)overlay->file_bytes);
    return bucket_of(overlay->file, overlay->file_bytes < KIB ? overlay->file_bytes : KIB, key);
}

static bool is_same(const struct overlay *a, const struct overlay *b)
{
    if (a->key || b->key)
        return a->key && b->key && strcmp(a->key, b->key) == 0 && a->file_bytes == b->file_bytes &&
               memcmp(a->file, b->file, a->file_bytes) == 0;
    return memcmp(&a->id, &b->id, sizeof a->id) == 0 && a->asked_width == b->asked_width;
}

/* Under the lock: returns a new reference, or NULL. */
static struct overlay *refer(struct overlays *overlays, const struct overlay *like, uint32_t bucket)
{
    list_each (node, &overlays->buckets[bucket]) {
        struct overlay *overlay = container_of(node, struct overlay, in_bucket);
        if (!is_same(overlay, like))
            continue;
        if (overlay->references++ == 0) {
            list_remove(&overlays->idle, &overlay->in_idle);
            overlays->idle_bytes -= overlay->block.bytes;
        }
        return overlay;
    }
    return NULL;
}

static struct overlay *find(struct overlays *overlays, const struct overlay *like)
{
    uint32_t bucket = bucket_for(like);
    pthread_mutex_lock(&overlays->lock);
    struct overlay *overlay = refer(overlays, like, bucket);
    pthread_mutex_unlock(&overlays->lock);
    return overlay;
}

struct overlay *overlays_find(struct overlays *overlays, const struct overlay_id *id,
                              uint32_t asked_width)
{
    return find(overlays, &(struct overlay){.id = *id, .asked_width = asked_width});
}

struct overlay *overlays_find_key(struct overlays *overlays, const char *key, const uint8_t *file,
                                  uint64_t bytes)
{
    return find(overlays, &(struct overlay){.key = key, .file = file, .file_bytes = bytes});
}

/* No file has this device number. */
struct overlay_id overlays_new_id(struct overlays *overlays)
{
    pthread_mutex_lock(&overlays->lock);
    struct overlay_id id = {{UINT64_MAX, overlays->next_id++}};
    pthread_mutex_unlock(&overlays->lock);
    return id;
}

struct overlay *overlays_add(struct overlays *overlays, struct overlay *overlay)
{
    struct pool_block block = overlay->block;
    uint32_t bucket = bucket_for(overlay);
    pthread_mutex_lock(&overlays->lock);
    struct overlay *known = refer(overlays, overlay, bucket);
    if (!known) {
        block = (struct pool_block){0};
        overlay->references = 1;
        overlay->bucket = bucket;
        list_push(&overlays->buckets[bucket], &overlay->in_bucket);
    }
    pthread_mutex_unlock(&overlays->lock);
    pool_give(overlays->pool, &block);
    return known ? known : overlay;
}

void overlays_release(struct overlays *overlays, struct overlay *overlay)
{
    pthread_mutex_lock(&overlays->lock);
    assert(overlay->references > 0);
    if (--overlay->references == 0) {
        list_push(&overlays->idle, &overlay->in_idle);
        overlays->idle_bytes += overlay->block.bytes;
        if (overlay->block.bytes > overlays->idle_bytes_max)
            evict(overlays, overlay); /* instead of all others */
        while (overlays->idle_bytes > overlays->idle_bytes_max && evict_oldest(overlays))
            continue;
    }
    pthread_mutex_unlock(&overlays->lock);
}
