/* wait.h - waits for a job while idle, on the blocking connection. The watcher waits in a BLMOVE of
 * NS:jobs onto itself; all other daemons wait in a BLPOP of NS:wake. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

/* What the blocking connection waits for. Redis ends each wait after block_s. */
enum queue_wait {
    WAIT_NOT,
    WAIT_ON_WAKE,  /* BLPOP of NS:wake */
    WAIT_ON_JOBS,  /* BLMOVE of NS:jobs onto itself */
    WAIT_UNBLOCKED, /* as WAIT_ON_JOBS, and CLIENT UNBLOCK was sent to end it */
    WAIT_REFUSED   /* Redis refused the last wait; TIMER_IDLE tries again */
};

struct wait {
    struct redis *redis; /* the blocking connection; NULL before queue_start and after the close */
    long long id;        /* Redis's id of it; 0: not known */
    enum queue_wait on;
};

/* Waits for a job if the daemon is idle and could fetch it. */
void wait_pump(struct queue *queue);
void wait_again(struct queue *queue); /* also if Redis refused it */
void wait_up(struct queue *queue); /* the blocking connection is new */
