/* cache.c - returns the tables of a profile, and keeps them for later jobs with that profile. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "conf/list.h"
#include "gpu/colour/build.h"

/* An entry keeps the whole profile as its key. If the key were a hash, a client could craft a
 * profile with the same hash, and change the colours of another client's images. */
struct entry {
    struct list_node node;
    enum colour_intent intent;
    struct colour *colour;
    size_t length;
    uint8_t icc[];
};

static struct {
    pthread_mutex_t lock;
    struct list entries; /* the most recently used is last */
    bool is_open;        /* `entries` is initialized */
    size_t bytes, limit;
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t entry_bytes(const struct entry *entry)
{
    return sizeof(*entry) + entry->length + colour_bytes(entry->colour);
}

/* Frees the least recently used entries. Under the lock. */
static void shrink_to(size_t bytes)
{
    while (cache.bytes > bytes) {
        struct entry *oldest = container_of(list_pop(&cache.entries), struct entry, node);
        cache.bytes -= entry_bytes(oldest);
        colour_release(oldest->colour);
        free(oldest);
    }
}

void colour_cache_limit(size_t bytes)
{
    pthread_mutex_lock(&cache.lock);
    if (!cache.is_open)
        list_init(&cache.entries);
    cache.is_open = true;
    cache.limit = bytes;
    shrink_to(bytes);
    pthread_mutex_unlock(&cache.lock);
}

size_t colour_cache_bytes(void)
{
    pthread_mutex_lock(&cache.lock);
    size_t bytes = cache.bytes;
    pthread_mutex_unlock(&cache.lock);
    return bytes;
}

/* Returns the cached tables, and marks them as used. The caller becomes an owner. NULL: not in the
 * cache. Under the lock. */
static struct colour *find(const uint8_t *icc, size_t length, enum colour_intent intent)
{
    if (!cache.is_open)
        return NULL;
    list_each (node, &cache.entries) {
        struct entry *entry = container_of(node, struct entry, node);
        if (entry->length != length || entry->intent != intent ||
            memcmp(entry->icc, icc, length) != 0)
            continue;
        list_remove(&cache.entries, &entry->node);
        list_push(&cache.entries, &entry->node);
        atomic_fetch_add(&entry->colour->owners, 1);
        return entry->colour;
    }
    return NULL;
}

static struct colour *look_up(const uint8_t *icc, size_t length, enum colour_intent intent)
{
    pthread_mutex_lock(&cache.lock);
    struct colour *colour = find(icc, length, intent);
    pthread_mutex_unlock(&cache.lock);
    return colour;
}

/* Adds tables to the cache, unless another worker has added tables for the same profile meanwhile,
 * or there is no memory. */
static void keep(const uint8_t *icc, size_t length, enum colour_intent intent,
                 struct colour *colour)
{
    struct entry *entry = malloc(sizeof(*entry) + length);
    if (!entry)
        return;
    entry->intent = intent;
    entry->colour = colour;
    entry->length = length;
    memcpy(entry->icc, icc, length);
    size_t bytes = entry_bytes(entry);
    pthread_mutex_lock(&cache.lock);
    struct colour *other = find(icc, length, intent);
    bool kept = !other && bytes <= cache.limit;
    if (kept) {
        shrink_to(cache.limit - bytes);
        cache.bytes += bytes;
        atomic_fetch_add(&colour->owners, 1);
        list_push(&cache.entries, &entry->node);
    }
    pthread_mutex_unlock(&cache.lock);
    colour_release(other);
    if (!kept)
        free(entry);
}

enum status colour_take(const uint8_t *icc, size_t bytes, enum colour_intent intent,
                        struct colour **colour, struct error *error)
{
    struct icc profile;
    struct colour *made = NULL;
    const char *fault = icc_open(&profile, icc, bytes);
    if (fault)
        return error_set(error, STATUS_DECODE_FAILED, "%s", fault);
    *colour = look_up(icc, bytes, intent);
    if (*colour)
        return STATUS_OK;
    enum status status = colour_is_simple(&profile, intent)
                             ? colour_build_simple(&profile, &made, error)
                             : colour_build_grid(&profile, intent, &made, error);
    if (status != STATUS_OK) {
        colour_release(made);
        return status;
    }
    keep(icc, bytes, intent, made);
    *colour = made;
    return STATUS_OK;
}
