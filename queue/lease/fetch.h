/* fetch.h - fetches jobs, for the queues of a group in turn.
 *
 * The daemon learns of new jobs in three ways:
 * - The last FETCH left jobs in NS:jobs: fetch again when a place is free.
 * - The blocking connection wakes the idle daemon (wait.h). The watcher also gets a message after a
 *   push to a list with a priority (listen.h).
 * - The idle timer sends LOOK (idle.h): for delayed jobs that are due, for jobs in NS:alone, and if
 *   the blocking connection is down or refused. */
#pragma once

#include "queue/lease/limit.h"
#include "queue/lease/queue.h"

struct group;

struct fetch {
    uint64_t counter;  /* of the outstanding call; 0: none */
    uint32_t reserved; /* places that the outstanding call may fill */
    size_t text_bytes; /* the largest text that the last call asked for */
    uint64_t sent_ms;  /* time of the last call, uv_now */
    uint64_t serial;   /* places.fetches at the last call */
    struct limit limit;
};

/* Whether the queue would send FETCH if it had a place. */
bool fetch_is_possible(const struct queue *queue);
/* After an event in the group: sends FETCH for the queues that can fetch, the one that fetched
 * least recently first. Each may hold an equal share of the places. */
void fetch_all(struct group *group);
