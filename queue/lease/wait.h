/* wait.h - waits for a job while the queue is idle (idle.h), on a connection for blocking commands.
 *
 * The watcher (watch.h) waits in BLMOVE, which moves the last entry of NS:jobs onto itself. All
 * other daemons wait for a message in BLPOP of NS:wake. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

/* What the blocking connection waits for. Redis ends each wait after block_s. */
enum queue_wait {
    WAIT_NOT,
    WAIT_ON_WAKE,   /* BLPOP of NS:wake */
    WAIT_ON_JOBS,   /* BLMOVE of NS:jobs */
    WAIT_UNBLOCKED, /* BLMOVE of NS:jobs, and CLIENT UNBLOCK was sent to end it */
    WAIT_REFUSED    /* nothing: Redis refused the last command; TIMER_IDLE tries again */
};

struct wait {
    struct redis *redis; /* the blocking connection; NULL before queue_start and after the close */
    long long id;        /* its CLIENT ID; 0: not known */
    enum queue_wait on;
};

/* Starts to wait if the queue is idle and could fetch a job. */
void wait_pump(struct queue *queue);
void wait_again(struct queue *queue); /* permits the next wait after a refusal */
void wait_up(struct queue *queue);    /* call when the blocking connection is up */
