/* timers.h - the timers of a queue: one per purpose. Loop thread only. */
#pragma once

#include <stdint.h>
#include <uv.h>

struct queue;

enum queue_timer {
    TIMER_BACKOFF, /* Redis refused a call: no FETCH, START, DONE, NACK or LOOK until then */
    TIMER_FETCH,   /* GATHER_MS between FETCH calls */
    TIMER_IDLE,    /* the next LOOK */
    TIMER_START,   /* GATHER_MS between START calls, or a retry */
    TIMER_DONE,
    TIMER_NACK, /* GATHER_MS between calls of an outbox, or a retry */
    TIMER_RENEW,
    TIMER_REAP,
    TIMER_READ,
    TIMER_CLOSE, /* the timeout of queue_close */
    TIMER_TURN,  /* queue_turn (queue.c), in this iteration of the loop */
    TIMER_COUNT
};

struct timers {
    uv_timer_t each[TIMER_COUNT];
    void (*expired)(struct queue *queue, enum queue_timer timer);
};

/* Starts a timer, also if it runs. Does nothing before queue_start and after the close. */
void timer_start(struct queue *queue, enum queue_timer timer, uint64_t ms);
/* The same, unless the timer runs already. */
void timer_ensure(struct queue *queue, enum queue_timer timer, uint64_t ms);
/* Called after each event: a reply, a timer, a connection that is up, a call of the daemon.
 * queue_turn then sends what has become possible, once after several events. */
void timer_turn(struct queue *queue);
