#include "queue/lease/places.h"

#include "queue/lease/lease_impl.h"

bool places_open(const struct queue *queue)
{
    const struct group *group = queue->group;
    return group->count == 1 ? group->places.free > 0 : group->places.open;
}

size_t places_held(const struct queue *queue)
{
    return queue->entries.all.length + queue->fetch.places;
}

/* A slow shard holds places for its whole round trips, in which they have no jobs. So the places
 * that other shards hold count here only if a job runs in them: with spare places, each shard may
 * take the rest of `inflight`. */
static uint32_t spare_room(const struct queue *queue)
{
    const struct group *group = queue->group;
    size_t left = group->places.free + group->places.spare - group->places.reserved;
    size_t used = 0, most = group->options->inflight;
    if (group->places.spare == 0)
        return 0;
    each_queue (other, group)
        used += other == queue ? places_held(other) : other->entries.running.length;
    size_t room = used < most ? most - used : 0;
    return (uint32_t)(room < left ? room : left);
}

uint32_t places_room(const struct queue *queue)
{
    const struct places *places = &queue->group->places;
    if (places->free + places->spare <= places->reserved || alone_is_other(queue))
        return 0;
    uint32_t room = places->free > places->reserved ? places->free - places->reserved : 0;
    uint32_t spare = queue->group->count > 1 ? spare_room(queue) : 0;
    return room > spare ? room : spare;
}

bool places_run_jobs(const struct group *group)
{
    each_queue (queue, group)
        if (queue->entries.running.length > 0)
            return true;
    return false;
}

size_t places_busy(const struct queue *queue)
{
    const struct group *group = queue->group;
    size_t jobs = 0;
    if (group->count == 1)
        return queue->entries.all.length;
    each_queue (one, group) {
        bool is_here = one == queue || calls_ready(one);
        jobs += is_here ? one->entries.all.length : one->entries.running.length;
        jobs += one != queue && one->fetch.out;
    }
    return jobs;
}
