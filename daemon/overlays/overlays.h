/*
 * overlays.h - a cache of the images that jobs lay over others: decoded, oriented and resized.
 *
 * An overlay is a block of the pool of input files, so host_bytes bounds it. Jobs hold references.
 * Overlays without one stay until their room is needed: overlays_take, which also serves input
 * files, evicts the least recently used ones. At most idle_bytes_max of them stay.
 *
 * A file is identified by device, inode, size, and the times of the last change of its content and
 * of its inode (mtime, ctime). So a changed file is another overlay.
 * A key is identified by its name and all of its bytes, a text by its style and all of its bytes.
 *
 * Any thread.
 */
#pragma once

#include <stdbool.h>

#include "conf/list.h"
#include "gpu/engine/pool.h"
#include "gpu/plan/plan.h"

#define OVERLAY_ID_WORDS 5

/* The source of an overlay. All zero: none. */
struct overlay_id {
    uint64_t words[OVERLAY_ID_WORDS];
};

/* The key of all texts: no key of Redis that a job names is empty. */
#define OVERLAY_TEXT ""

/* At the start of its block. Read-only between overlays_add and its eviction, except for the
 * members that the cache guards. */
struct overlay {
    struct overlay_id id;
    uint32_t asked_width;             /* to which it was resized; 0: it has its own size */
    uint32_t file_width, file_height; /* of the file, before orientation */
    uint64_t file_bytes;
    struct plan_overlay pixels;
    const char *key; /* of an overlay of its own size from a key; OVERLAY_TEXT of a text; else
                        NULL */
    const uint8_t
        *file; /* with a key: the file_bytes of its value; of a text: codec_measure_text */

    struct pool_block block; /* this and the rest: private to the cache */
    size_t references;
    uint32_t bucket;
    struct list_node in_bucket, in_idle;
};

struct overlays;

/* pool: the caller's; it outlives the cache. NULL: out of memory. */
struct overlays *overlays_create(struct pool *pool, size_t idle_bytes_max);
/* All references must have been released. NULL is ignored. */
void overlays_destroy(struct overlays *overlays);

/* As pool_take_beside, after evicting overlays that nobody uses, if necessary. */
bool overlays_take(struct overlays *overlays, size_t bytes, size_t held, struct pool_block *block,
                   bool *exhausted);
/* Whether the pool can hold the block beside blocks of `held` bytes. An estimate: it assumes
 * that these blocks leave at most two gaps. If held > 0, twice `bytes` must therefore be free,
 * so that one of the gaps is large enough. */
bool overlays_fit(const struct overlays *overlays, size_t bytes, size_t held);
void overlays_give(struct overlays *overlays, struct pool_block *block);

/* Returns an id that no overlay has. An overlay from a key needs one, because its resized copies
 * are found by id and width. So does a file that changed so recently that its times do not
 * identify it: no other job then finds its overlay. */
struct overlay_id overlays_new_id(struct overlays *overlays);

/* Both return a new reference, or NULL. */
struct overlay *overlays_find(struct overlays *overlays, const struct overlay_id *id,
                              uint32_t asked_width);
struct overlay *overlays_find_key(struct overlays *overlays, const char *key, const uint8_t *file,
                                  uint64_t bytes);
/* Adds an overlay, which is at the start of its block, and returns a reference. The cache then owns
 * the block. Another thread may have added the same overlay: that is returned instead, and the
 * block is given back. */
struct overlay *overlays_add(struct overlays *overlays, struct overlay *overlay);
void overlays_release(struct overlays *overlays, struct overlay *overlay);
