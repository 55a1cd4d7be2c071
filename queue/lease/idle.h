/* idle.h - the idle state of a queue, in which it does not fetch, and LOOK, which ends it when
 * delayed jobs are due or jobs wait to run alone. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

struct idle {
    bool now;         /* the last FETCH left NS:jobs empty, or NS:paused existed */
    bool looking;     /* a LOOK is outstanding */
    uint64_t look_ms; /* time of the last LOOK, uv_now */
};

/* Enters the idle state and schedules the next LOOK: in due_ms, when the next delayed job is due
 * (-1: there is none), at the latest after block_s. */
void idle_enter(struct queue *queue, long long due_ms);
void idle_end(struct queue *queue); /* leaves the state: there may be a job now */
void idle_over(struct queue *queue); /* the timer expired: sends LOOK */
/* Returns true if the daemon is idle and could fetch a job. */
bool idle_may_wait(const struct queue *queue);
/* Whether NS:paused exists. */
void idle_note_paused(struct queue *queue, bool paused);
