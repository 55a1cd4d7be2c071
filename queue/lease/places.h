/* places.h - how many jobs each queue of a group may fetch. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

struct group;

/* Of the group: how many more leases the daemon can take. */
struct places {
    bool open;         /* the daemon takes jobs if it has places */
    uint32_t free;
    uint32_t spare;    /* further leases, if the places have no jobs (places_to_fetch) */
    uint32_t reserved; /* of both, for jobs that outstanding FETCH calls may bring */
    uint64_t fetches;  /* number of FETCH calls so far, of all queues */
    bool fetch_due;    /* an event may have made a FETCH possible */
};

/* Whether the daemon takes jobs for the queue: it has a place, or places are only full because of
 * the other shards. */
bool places_open(const struct queue *queue);
/* The places that a shard holds for running jobs, unacknowledged ends and its FETCH. */
size_t places_held(const struct queue *queue);
/* Number of jobs that the queue may fetch now. */
uint32_t places_to_fetch(const struct queue *queue);
/* Jobs of the daemon that must end before one of the queue runs alone. Unacknowledged ends do not
 * count while their shard is away. */
size_t places_blocking_alone(const struct queue *queue);
bool places_any_running(const struct group *group);
