/* timers.h - the timers of a queue: one per purpose. Loop thread only. */
#pragma once

#include <stdint.h>
#include <uv.h>

struct queue;

enum queue_timer {
    TIMER_BACKOFF, /* the end of the pause after a refused call (calls.h) */
    TIMER_FETCH,   /* GATHER_MS between FETCH calls */
    TIMER_IDLE,    /* the next LOOK */
    TIMER_START,   /* GATHER_MS between START calls, or a retry */
    TIMER_DONE,    /* the next call of the outbox: after GATHER_MS, or a retry */
    TIMER_NACK,    /* the same */
    TIMER_RENEW,   /* the next RENEW */
    TIMER_REAP,    /* the next REAP */
    TIMER_READ,    /* the next attempt of a read (read.c) */
    TIMER_STORE,   /* the next SET (store.c) */
    TIMER_CLOSE,   /* the timeout of queue_close */
    TIMER_TURN,    /* queue_turn (queue.c), in this iteration of the loop */
    TIMER_COUNT
};

struct timers {
    uv_timer_t each[TIMER_COUNT];
    /* queue.c's timer_expired: says what each timer starts. */
    void (*expired)(struct queue *queue, enum queue_timer timer);
};

/* Starts a timer, or restarts it. Does nothing before queue_start and after the close. */
void timer_start(struct queue *queue, enum queue_timer timer, uint64_t ms);
/* The same, unless the timer runs already. */
void timer_ensure(struct queue *queue, enum queue_timer timer, uint64_t ms);
/* Call after each event: a reply, a timer, a new connection, a call of the daemon. Makes queue_turn
 * run once in this iteration of the loop, after all events. */
void timer_turn(struct queue *queue);
