#include "gpu/ops/weights_cache.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "conf/limits.h"

#define TABLES_MAX 128
/* One table does not replace all others. */
#define TABLE_BYTES_MAX (WEIGHTS_CACHE_BYTES / 8)

struct entry {
    struct weights_key key;
    void *table; /* NULL: the entry is free */
    size_t bytes;
    uint64_t used; /* the value of cache.uses when it was used last */
};

static struct {
    pthread_mutex_t lock; /* guards the other members */
    struct entry entries[TABLES_MAX];
    size_t bytes;
    uint64_t uses;
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_same(const struct weights_key *a, const struct weights_key *b)
{
    return a->start == b->start && a->end == b->end && a->outputs == b->outputs && a->at == b->at &&
           a->total == b->total && a->cut == b->cut && a->origin == b->origin &&
           a->inputs == b->inputs && a->taps == b->taps && a->filter == b->filter &&
           a->bits == b->bits;
}

static struct entry *find(const struct weights_key *key)
{
    for (size_t i = 0; i < TABLES_MAX; i++)
        if (cache.entries[i].table && is_same(&cache.entries[i].key, key))
            return &cache.entries[i];
    return NULL;
}

static void drop(struct entry *entry)
{
    cache.bytes -= entry->bytes;
    free(entry->table);
    *entry = (struct entry){0};
}

/* A free entry, or the one that was not used for longest. */
static struct entry *oldest(void)
{
    struct entry *found = &cache.entries[0];
    for (size_t i = 1; i < TABLES_MAX; i++)
        if (cache.entries[i].used < found->used)
            found = &cache.entries[i];
    return found;
}

/* The oldest entry that has a table. */
static struct entry *oldest_used(void)
{
    struct entry *found = NULL;
    for (size_t i = 0; i < TABLES_MAX; i++)
        if (cache.entries[i].table && (!found || cache.entries[i].used < found->used))
            found = &cache.entries[i];
    return found;
}

bool weights_cache_get(const struct weights_key *key, void *to, size_t bytes)
{
    pthread_mutex_lock(&cache.lock);
    struct entry *entry = find(key);
    if (entry) {
        assert(bytes == entry->bytes);
        entry->used = ++cache.uses;
        memcpy(to, entry->table, bytes);
    }
    pthread_mutex_unlock(&cache.lock);
    return entry != NULL;
}

void weights_cache_put(const struct weights_key *key, const void *table, size_t bytes)
{
    void *copy = bytes <= TABLE_BYTES_MAX ? malloc(bytes) : NULL;
    if (!copy)
        return;
    memcpy(copy, table, bytes);
    pthread_mutex_lock(&cache.lock);
    if (find(key)) { /* another thread has computed it, too */
        free(copy);
    } else {
        while (cache.bytes + bytes > WEIGHTS_CACHE_BYTES)
            drop(oldest_used());
        struct entry *entry = oldest();
        if (entry->table)
            drop(entry);
        *entry = (struct entry){*key, copy, bytes, ++cache.uses};
        cache.bytes += bytes;
    }
    pthread_mutex_unlock(&cache.lock);
}
