/*
 * waker.h - wakes the event loop from another thread.
 *
 * A waker replaces uv_async_t. Before libuv 1.45 the loop spins while another thread is inside
 * uv_async_send. If all processors are busy and that thread is preempted there, the loop stalls for
 * milliseconds. A waker never makes the loop wait.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include <uv.h>

typedef void (*waker_cb)(void *context);

struct waker {
    uv_poll_t poll;
    int fd;              /* an eventfd */
    atomic_bool pending; /* woken, and the loop has not handled it yet */
    waker_cb callback;
    void *context;
};

/* The loop calls `callback` at least once after each wake; several wakes may share one call.
 * Returns 0 or a negative libuv error; after an error, do not call waker_close. */
int waker_open(struct waker *waker, uv_loop_t *loop, waker_cb callback, void *context);
/* Any thread. The callback sees all writes before the call. */
void waker_wake(struct waker *waker);
/* On the loop, after the last waker_wake. The loop must run once more to close the handle. */
void waker_close(struct waker *waker);
