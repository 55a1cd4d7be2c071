/* fetch.h - takes jobs from Redis by the script FETCH, for each queue of a group in turn.
 *
 * A queue learns of new jobs in three ways:
 * - The last FETCH left jobs in the lists. The queue fetches again when a place is free.
 * - The queue is idle, because the last FETCH left no jobs, and waits in a blocking command
 *   (wait.h) or for a message of Redis (listen.h).
 * - The timer of the idle state expires. The script LOOK then finds delayed jobs that are due, jobs
 *   of NS:alone, and what the blocking connection missed while it was down or refused (idle.h). */
#pragma once

#include "queue/lease/limit.h"
#include "queue/lease/queue.h"

struct group;

struct fetch {
    uint64_t counter;  /* its value of group.counter, while a call is outstanding; else 0 */
    uint32_t reserved; /* places that the outstanding call may fill */
    uint32_t arriving; /* the same for the call whose reply is being handled */
    size_t text_bytes; /* the largest text that the last call asked for */
    uint64_t sent_ms;  /* time of the last call, uv_now */
    uint64_t serial;   /* value of places.fetches at the last call: orders the queues */
    struct limit limit; /* of the jobs per call */
};

/* Whether the queue may send FETCH as soon as places_to_fetch permits a job. */
bool fetch_is_possible(const struct queue *queue);
/* Sends FETCH for each queue that can fetch now, if places.fetch_due is set. The queue whose last
 * FETCH is the oldest goes first. Each active queue may hold an equal share of the places. */
void fetch_all(struct group *group);
