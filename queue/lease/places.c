#include "queue/lease/places.h"

#include "queue/lease/lease_impl.h"

bool places_open(const struct queue *queue)
{
    const struct group *group = queue->group;
    return group->places.open && (group->places.free > 0 || group->count > 1);
}

size_t places_held(const struct queue *queue)
{
    return queue->entries.all.length + queue->fetch.arriving + queue->fetch.reserved;
}

/* Number of jobs that the queue may fetch if it also uses spare places; 0 if no other shard holds a
 * place without a running job. A slow shard holds such places during each of its calls. So only
 * the running jobs of other shards count here: they and the places of this queue may reach
 * `inflight` together, within free + spare. */
static uint32_t to_fetch_with_spare(const struct queue *queue)
{
    const struct group *group = queue->group;
    size_t left = group->places.free + group->places.spare - group->places.reserved;
    size_t used = places_held(queue), unused = 0, most = group->options->inflight;
    each_queue (other, group) {
        size_t running = other->entries.running.length;
        used += other == queue ? 0 : running;
        unused += other == queue ? 0 : places_held(other) - running;
    }
    size_t fetchable = unused > 0 && used < most ? most - used : 0;
    return (uint32_t)(fetchable < left ? fetchable : left);
}

uint32_t places_to_fetch(const struct queue *queue)
{
    const struct places *places = &queue->group->places;
    if (places->free + places->spare <= places->reserved || alone_is_other(queue))
        return 0;
    uint32_t fetchable = places->free > places->reserved ? places->free - places->reserved : 0;
    uint32_t spare = to_fetch_with_spare(queue);
    return fetchable > spare ? fetchable : spare;
}

bool places_any_running(const struct group *group)
{
    each_queue (queue, group)
        if (queue->entries.running.length > 0)
            return true;
    return false;
}

size_t places_blocking_alone(const struct queue *queue)
{
    const struct group *group = queue->group;
    size_t jobs = 0;
    each_queue (one, group) {
        bool is_ready = one == queue || calls_ready(one);
        jobs += is_ready ? one->entries.all.length : one->entries.running.length;
        jobs += one->fetch.arriving;
        jobs += one != queue && queue_is_fetching(one);
    }
    return jobs;
}
