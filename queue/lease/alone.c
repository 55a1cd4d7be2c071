#include "queue/lease/alone.h"

#include "conf/log.h"
#include "queue/lease/lease_impl.h"

/* After running this many jobs alone in a row, this daemon runs other jobs for the same time. */
#define ALONE_RUN_MAX 8

/* If a job runs alone, queue->alone stays true, even if the right to run alone has expired early
 * because Redis's clock stepped. */
bool alone_runs(const struct queue *queue)
{
    list_each(node, &queue->running)
        if (entry_of(node)->lease.alone)
            return true;
    return false;
}

bool alone_is_other(const struct queue *queue)
{
    if (queue->group->count == 1)
        return false;
    each_queue (other, queue->group)
        if (other != queue && other->alone && (calls_ready(other) || alone_runs(other)))
            return true;
    return false;
}

bool alone_may_claim(const struct queue *queue)
{
    const struct group *group = queue->group;
    if (queue->alone)
        return group->alone_taken < ALONE_RUN_MAX;
    if (uv_now(queue->loop) < group->alone_rest_ms)
        return false;
    if (group->count == 1)
        return true;
    if (alone_is_other(queue))
        return false;
    each_queue (other, queue->group)
        if (other != queue && (other->fetch_claims ||
                               (queue_is_active(other) && other->claim_turn < queue->claim_turn)))
            return false;
    return true;
}

/* The queue has the right: an older right of a shard that was away meanwhile ends. */
static void claimed(struct queue *queue)
{
    each_queue (other, queue->group)
        if (other != queue && !alone_runs(other))
            other->alone = false;
}

void alone_note(struct queue *queue, bool alone, size_t taken)
{
    struct group *group = queue->group;
    uint64_t now = uv_now(queue->loop);
    if (alone && !queue->alone) {
        group->alone_since_ms = now;
        group->alone_taken = 0;
        claimed(queue);
        log_info("%sjobs on their last attempt are waiting: they run one at a time, without others",
                 queue->mark);
    }
    if (!alone && queue->alone)
        group->alone_rest_ms = now + (group->alone_taken >= ALONE_RUN_MAX
                                          ? now - group->alone_since_ms : 0);
    queue->alone = alone;
    group->alone_taken += (unsigned)(alone ? taken : 0);
}
