/*
 * waker.h - wakes the loop from another thread.
 *
 * As uv_async_t, but the loop never waits for who wakes it. That of libuv before 1.45 does, for as
 * long as a thread is inside uv_async_send: on a machine whose processors are all busy with
 * workers, one that loses its processor to the loop just there holds up the loop for milliseconds.
 */
#ifndef GPUIMGD_DAEMON_PIPELINE_WAKER_H
#define GPUIMGD_DAEMON_PIPELINE_WAKER_H

#include <stdatomic.h>
#include <stdbool.h>

#include <uv.h>

typedef void (*waker_cb)(void *context);

struct waker {
    uv_poll_t poll;
    int fd;              /* an eventfd */
    atomic_bool pending; /* woken, and the loop has not come for it yet */
    waker_cb callback;
    void *context;
};

/* callback comes on the loop, once or more for all wakes before it. 0, or a negative error of
 * libuv; then there is nothing to close. */
int waker_open(struct waker *waker, uv_loop_t *loop, waker_cb callback, void *context);
/* From any thread. What was written before it, the callback sees. */
void waker_wake(struct waker *waker);
/* No thread may wake it any more. The loop must run once more for its handle to close. */
void waker_close(struct waker *waker);

#endif
