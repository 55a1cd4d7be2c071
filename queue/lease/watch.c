#include "queue/lease/watch.h"

#include "queue/lease/lease_impl.h"

void watch_pass(struct queue *queue)
{
    queue->watch = WATCH_NOT;
    if (queue->life == LIFE_SHUT || !redis_up(queue->redis))
        return;
    if (queue->life == LIFE_LEAVING)
        (void)lease_leave(queue, "pass"); /* RENEW would add the daemon's name again,
                                             which LEAVE has removed */
    else
        lease_renew_pass(queue);
}

void watch_job_came(struct queue *queue)
{
    if (places_to_fetch(queue) == 0 && queue->watch != WATCH_ONLY_DAEMON)
        watch_pass(queue);
    idle_end(queue);
}

/* Whether this daemon is no use as the watcher: it cannot take jobs, or it does not wait for a push
 * because it is not idle, and cannot fetch because other shards hold all places. */
static bool is_watch_unused(const struct queue *queue)
{
    return queue_is_closing(queue) || !places_open(queue) ||
           (!queue->idle.now && places_to_fetch(queue) == 0);
}

void watch_check(struct queue *queue)
{
    if (queue->watch == WATCH && !queue_is_fetching(queue) && is_watch_unused(queue))
        watch_pass(queue);
}
