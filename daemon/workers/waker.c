#include "daemon/workers/waker.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct waker *waker = poll->data;
    uint64_t count;
    (void)status, (void)events;
    if (read(waker->fd, &count, sizeof count) < 0)
        /* uncovered: moment (tests/coverage/reasons.txt) */
        return;
    /* Cleared after the read, so that the next waker_wake writes to the eventfd again. An exchange,
     * because a store would not synchronize with a waker_wake that found `pending` set and did not
     * write: the callback must see what its thread wrote before. */
    atomic_exchange(&waker->pending, false);
    waker->callback(waker->context);
}

int waker_open(struct waker *waker, uv_loop_t *loop, waker_cb callback, void *context)
{
    waker->callback = callback;
    waker->context = context;
    atomic_init(&waker->pending, false);
    waker->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (waker->fd < 0)
        return -errno;
    int status = uv_poll_init(loop, &waker->poll, waker->fd);
    if (status != 0) { /* uncovered: memory */
        close(waker->fd);
        return status;
    }
    waker->poll.data = waker;
    return uv_poll_start(&waker->poll, UV_READABLE, on_readable);
}

void waker_wake(struct waker *waker) /* uncovered: moment */
{
    const uint64_t one = 1;
    if (atomic_exchange(&waker->pending, true))
        return;
    while (write(waker->fd, &one, sizeof one) < 0 && errno == EINTR) /* uncovered: moment */
        continue;
}

void waker_close(struct waker *waker)
{
    uv_close((uv_handle_t *)&waker->poll, NULL); /* removes fd from epoll before it is closed */
    close(waker->fd);
}
