/* read.h - queue_read: reads images that are stored in Redis.
 *
 * GETRANGE fetches the first 64 KiB, which is all of a small image. For a larger one STRLEN comes
 * before GET, so that a key over the limit is not transferred. The bytes belong to no memory pool
 * until the caller releases them, so READS_* in conf/limits.h limit the reads. */
#pragma once

#include "queue/lease/queue.h"

/* The limits that an image read counts towards: READS_SMALL_MAX, or READS_LARGE_* (limits.h). */
enum permit { PERMIT_NONE, PERMIT_SMALL, PERMIT_LARGE, PERMIT_KINDS };

/* Of the group: the room of all reads. */
struct read_permits {
    unsigned permits[PERMIT_KINDS]; /* reads sent, or not yet released by the caller */
    unsigned wakes[PERMIT_KINDS];   /* calls of wake (read.c) since the outermost one began */
    size_t large_bytes;         /* of the large reads whose length is known */
    uint32_t next;              /* the queue whose reads get free room first */
};

void read_pump(struct queue *queue); /* starts the reads that are due */
void read_down(struct queue *queue, const char *reason); /* the main connection broke */
void read_cancel_all(struct queue *queue); /* no callback is called any more */
void read_free_all(struct queue *queue);
