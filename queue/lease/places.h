/* places.h - how many jobs each queue of a group may fetch.
 *
 * A place is the right to hold one more lease. The daemon sets how many places are free; group.h
 * says how the shards share them. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

struct group;

/* The places of a group. `free` and `spare` fall when a lease begins; the daemon raises them later
 * (group_set_places). */
struct places {
    bool open; /* false: the daemon takes no jobs, however many places are free */
    uint32_t free;
    uint32_t spare;    /* used while other shards hold places without a running job */
    uint32_t reserved; /* of free + spare, for the jobs that outstanding FETCH calls may return */
    uint64_t fetches;  /* FETCH calls of all queues so far */
    bool fetch_due;    /* an event may have made a FETCH possible */
};

/* Whether the queue may wait for jobs. With several shards this does not depend on free places:
 * other shards that hold all of them may give some back at any time. */
bool places_open(const struct queue *queue);
/* The places of the queue: running jobs, ends that Redis has not acknowledged, and the places that
 * its FETCH calls have reserved. */
size_t places_held(const struct queue *queue);
/* Number of jobs that the queue may fetch now. */
uint32_t places_to_fetch(const struct queue *queue);
/* Jobs that must end before a job of this queue may run alone, and FETCH calls of other queues,
 * which may return jobs. An unacknowledged end counts too, unless its shard is away. */
size_t places_blocking_alone(const struct queue *queue);
/* Whether the daemon runs a job of any shard. */
bool places_any_running(const struct group *group);
