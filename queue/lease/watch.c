#include "queue/lease/watch.h"

#include "queue/lease/lease_impl.h"

void watch_pass(struct queue *queue)
{
    queue->watch = WATCH_NOT;
    if (queue->life == LIFE_SHUT || !redis_up(queue->redis))
        return;
    if (queue->life == LIFE_LEAVING)
        (void)lease_leave(queue, "pass"); /* RENEW would add the daemon's name again */
    else
        lease_renew_pass(queue);
}

void watch_job_came(struct queue *queue)
{
    if (places_to_fetch(queue) == 0 && queue->watch != WATCH_ONLY_DAEMON)
        watch_pass(queue);
    idle_end(queue);
}

/* A queue that has left the idle state waits for no push; while other shards have all places, it
 * does not fetch either. */
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
