#include "queue/lease/members.h"

#include <stdlib.h>

#include "queue/lease/lease_impl.h"

struct group *members_new(uint32_t count)
{
    struct group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->count = count;
    group->references = 1;
    return group;
}

void members_leave(struct group *group, struct queue *queue)
{
    if (queue)
        group->queues[queue->shard] = NULL;
    if (queue && group->bytes.first && group->bytes.first->queue == queue)
        group->bytes.first = NULL;
    if (--group->references > 0)
        return;
    for (uint32_t i = 0; group->own && i < group->count; i++)
        options_clear(&group->own[i]);
    free(group->own);
    free(group);
}
