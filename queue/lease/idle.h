/* idle.h - the idle state of a queue, in which it sends no FETCH, and the script LOOK.
 *
 * A queue becomes idle if a FETCH left no jobs in the lists, or if the namespace is paused. A push
 * ends the state (wait.h, listen.h). Some jobs cause no push: delayed jobs that are due, and jobs
 * in NS:alone. So at least every block_s the queue calls LOOK, which writes nothing, and fetches if
 * LOOK finds a job. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

struct idle {
    bool now;         /* the queue is idle */
    bool looking;     /* a LOOK is outstanding */
    uint64_t look_ms; /* time of the last LOOK, uv_now */
};

/* Makes the queue idle and schedules the next LOOK: in due_ms, when the next delayed job is due
 * (-1: there is none), but at the latest after block_s. */
void idle_enter(struct queue *queue, long long due_ms);
void idle_end(struct queue *queue);  /* ends the state: a FETCH may find a job now */
void idle_over(struct queue *queue); /* call when TIMER_IDLE expires: sends LOOK */
/* Whether the queue is idle and could take a job, so that it may wait for a push. */
bool idle_may_wait(const struct queue *queue);
/* Notes and logs whether NS:paused exists. */
void idle_note_paused(struct queue *queue, bool paused);
