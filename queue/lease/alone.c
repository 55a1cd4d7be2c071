#include "queue/lease/alone.h"

#include "conf/log.h"
#include "queue/lease/lease_impl.h"

/* After this many jobs alone, the daemon runs other jobs for as long as these jobs took: else many
 * jobs of NS:alone would stop all others. */
#define ALONE_RUN_MAX 8

bool alone_runs(const struct queue *queue)
{
    list_each(node, &queue->entries.running)
        if (entry_of(node)->lease.alone)
            return true;
    return false;
}

bool alone_is_other(const struct queue *queue)
{
    each_queue (other, queue->group)
        if (other != queue && other->alone.has && (calls_ready(other) || alone_runs(other)))
            return true;
    return false;
}

/* Whether the queue has an outstanding FETCH that may claim the right. */
static bool claims(const struct queue *queue)
{
    return queue_is_fetching(queue) && queue->alone.claim_serial == queue->fetch.serial;
}

bool alone_may_claim(const struct queue *queue)
{
    const struct group *group = queue->group;
    if (queue->alone.has)
        return group->alone.taken < ALONE_RUN_MAX;
    if (uv_now(queue->loop) < group->alone.rest_ms)
        return false;
    if (alone_is_other(queue))
        return false;
    each_queue (other, queue->group) {
        /* the queues of several shards claim in turn: the longest without a claim goes first */
        bool is_due =
            queue_is_active(other) && other->alone.claim_serial < queue->alone.claim_serial;
        if (other != queue && (claims(other) || is_due))
            return false;
    }
    return true;
}

/* Call when the queue gets the right. A shard that was away may still consider its own right valid:
 * ends it, unless a job runs alone there. */
static void end_other_rights(struct queue *queue)
{
    each_queue (other, queue->group)
        if (other != queue && !alone_runs(other))
            other->alone.has = false;
}

/* While a job runs alone, the daemon keeps acting as if it had the right. In Redis the right may
 * have expired early, because Redis's clock stepped. */
void alone_expired(struct queue *queue)
{
    if (!alone_runs(queue))
        queue->alone.has = false;
}

void alone_note(struct queue *queue, bool alone, size_t taken)
{
    struct group *group = queue->group;
    uint64_t now = uv_now(queue->loop);
    if (alone && !queue->alone.has) {
        group->alone.since_ms = now;
        group->alone.taken = 0;
        end_other_rights(queue);
        log_info("%sjobs on their last attempt are waiting: they run one at a time, without others",
                 queue->log_prefix);
    }
    if (!alone && queue->alone.has)
        group->alone.rest_ms = now + (group->alone.taken >= ALONE_RUN_MAX
                                          ? now - group->alone.since_ms : 0);
    queue->alone.has = alone;
    group->alone.taken += (unsigned)(alone ? taken : 0);
}
