#include "daemon/pipeline/starter.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "conf/clock.h"

static void on_prepare(uv_prepare_t *prepare)
{
    struct starter *starter = prepare->data;
    uint64_t next_ns = engine_start(starter->engine);
    if (next_ns == 0 || next_ns == starter->armed_ns)
        return;
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(next_ns / NS_PER_S),
                                           .tv_nsec = (long)(next_ns % NS_PER_S)}};
    timerfd_settime(starter->fd, TFD_TIMER_ABSTIME, &when, NULL);
    starter->armed_ns = next_ns;
}

/* What is due then is started before the loop waits again, as always. */
static void on_due(uv_poll_t *poll, int status, int events)
{
    struct starter *starter = poll->data;
    uint64_t times;
    (void)status, (void)events;
    while (read(starter->fd, &times, sizeof times) < 0 && errno == EINTR)
        continue;
    starter->armed_ns = 0;
}

bool starter_open(struct starter *starter, uv_loop_t *loop, struct engine *engine, bool delays,
                  struct error *error)
{
    starter->engine = engine;
    starter->prepare.data = starter->poll.data = starter;
    if (delays) {
        starter->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        int result = starter->fd < 0 ? -errno : uv_poll_init(loop, &starter->poll, starter->fd);
        if (result != 0) {
            error_set(error, STATUS_INTERNAL, "no timer for option batch_delay_us: %s",
                      strerror(-result));
            return false;
        }
        uv_poll_start(&starter->poll, UV_READABLE, on_due);
    }
    uv_prepare_init(loop, &starter->prepare);
    uv_prepare_start(&starter->prepare, on_prepare);
    return true;
}

void starter_close(struct starter *starter)
{
    if (starter->fd >= 0)
        close(starter->fd);
    starter->fd = -1;
}
