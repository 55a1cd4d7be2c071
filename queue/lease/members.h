/* members.h - the list of queues in a group, and the lifetime of the group.
 *
 * A group has one queue per shard of the daemon. A queue that queue_create made is the only one in
 * its group. Loop thread only. */
#pragma once

#include <stdint.h>

struct group;
struct queue;

/* Loops over the queues of a group, and skips queues that are freed. */
#define each_queue(one, all)                                                                       \
    for (uint32_t at_ = 0; at_ < (all)->count; at_++)                                              \
        for (struct queue *one = (all)->queues[at_]; one; one = NULL)

/* Creates an empty group for `count` queues, with one reference, which the caller owns. Returns
 * NULL if memory is short. */
struct group *members_new(uint32_t count);
/* Drops the reference of a queue that is being freed or, if queue is NULL, that of the caller of
 * members_new. The last call frees the group. */
void members_leave(struct group *group, struct queue *queue);
