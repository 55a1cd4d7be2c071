/* members.h - the queues of a group: the shards of a daemon, or a queue alone. Loop thread only. */
#pragma once

#include <stdint.h>

struct group;
struct queue;

/* The queues of a group; those that are freed are skipped. */
#define each_queue(one, all)                                                                       \
    for (uint32_t at_ = 0; at_ < (all)->count; at_++)                                              \
        for (struct queue *one = (all)->queues[at_]; one; one = NULL)

/* Creates a group for so many queues, or NULL: memory is short. The caller is its owner. */
struct group *members_new(uint32_t count);
/* The queue is freed, or, with NULL, the owner needs the group no more. The last one frees it. */
void members_leave(struct group *group, struct queue *queue);
