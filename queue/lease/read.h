/* read.h - reads images that are stored in Redis (queue_read).
 *
 * GETRANGE reads the first 64 KiB, which is all of a small image. For a larger image STRLEN and GET
 * follow, so that an image that is too large is not transferred. The memory of the bytes is in none
 * of the daemon's pools, so READS_* in conf/limits.h bound the number and the size of the reads. A
 * read holds a permit while it runs and until the caller releases the bytes. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

/* A small permit counts towards READS_SMALL_MAX, a large one towards READS_LARGE_MAX. */
enum permit { PERMIT_NONE, PERMIT_SMALL, PERMIT_LARGE, PERMIT_KINDS };

/* Of a group: the reads of all queues. */
struct read_permits {
    unsigned permits[PERMIT_KINDS]; /* that reads, or callers with their bytes, hold */
    unsigned wakes[PERMIT_KINDS];   /* calls of wake (read.c) since the outermost one began */
    size_t large_bytes; /* of the large reads whose length is known: at most READS_LARGE_BYTES */
    uint32_t next;      /* index of the queue whose reads get a free permit first */
};

void read_pump(struct queue *queue); /* starts the reads that wait for nothing but their due_ms */
/* Call when the main connection broke, or an attempt to connect failed. */
void read_down(struct queue *queue, const char *reason);
void read_cancel_all(struct queue *queue); /* after this, no callback is called */
void read_free_all(struct queue *queue);
