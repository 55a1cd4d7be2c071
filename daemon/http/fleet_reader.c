#include "daemon/http/fleet_reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "conf/clock.h"

enum ask_state {
    ASK_NONE,
    ASK_MADE,    /* by the HTTP thread */
    ASK_SENT,    /* by the loop */
    ASK_ANSWERED /* `fleet` is the answer, or NULL, and `error` */
};

struct fleet_reader {
    uv_async_t async;
    struct group *group; /* borrowed; loop thread only */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Guarded by the lock: */
    enum ask_state state;
    uint64_t number; /* of the ask. An answer to an earlier one is dropped */
    uint64_t sent;   /* number of the ask that was sent to Redis */
    uint32_t first;
    bool stopped;
    struct fleet *fleet;
    struct error error;
};

static void drop(struct fleet *fleet)
{
    if (fleet)
        fleet_clear(fleet);
    free(fleet);
}

static void on_answer(void *context, struct fleet *fleet, const struct error *error)
{
    struct fleet_reader *reader = context;
    pthread_mutex_lock(&reader->lock);
    bool is_current = reader->state == ASK_SENT && reader->sent == reader->number;
    if (is_current) {
        reader->fleet = fleet;
        reader->error = *error;
        reader->state = ASK_ANSWERED;
        pthread_cond_signal(&reader->changed);
    }
    pthread_mutex_unlock(&reader->lock);
    if (!is_current)
        drop(fleet);
}

static void on_ask(uv_async_t *async)
{
    struct fleet_reader *reader = async->data;
    const struct error none = {0};
    pthread_mutex_lock(&reader->lock);
    bool asked = reader->state == ASK_MADE && !reader->stopped;
    uint32_t first = reader->first;
    if (asked) {
        reader->state = ASK_SENT;
        reader->sent = reader->number;
    }
    pthread_mutex_unlock(&reader->lock);
    if (asked && !fleet_ask(reader->group, first, on_answer, reader))
        on_answer(reader, NULL, &none);
}

struct fleet *fleet_reader_read(struct fleet_reader *reader, uint32_t first, struct error *error)
{
    struct fleet *fleet = NULL;
    error_clear(error);
    struct timespec until;
    int late = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += FLEET_WAIT_MS * NS_PER_MS;
    until.tv_sec += until.tv_nsec / NS_PER_S;
    until.tv_nsec %= NS_PER_S;
    pthread_mutex_lock(&reader->lock);
    reader->state = ASK_MADE;
    reader->number++;
    reader->first = first;
    if (!reader->stopped) /* else the handle may be closed */
        uv_async_send(&reader->async);
    while (reader->state != ASK_ANSWERED && !reader->stopped && late != ETIMEDOUT)
        late = pthread_cond_timedwait(&reader->changed, &reader->lock, &until);
    if (reader->state == ASK_ANSWERED) {
        fleet = reader->fleet;
        *error = reader->error;
    }
    reader->fleet = NULL;
    reader->state = ASK_NONE;
    pthread_mutex_unlock(&reader->lock);
    return fleet;
}

struct fleet_reader *fleet_reader_create(uv_loop_t *loop, struct group *group)
{
    struct fleet_reader *reader = calloc(1, sizeof *reader);
    pthread_condattr_t clock;
    if (!reader) /* uncovered: memory */
        return NULL;
    pthread_mutex_init(&reader->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&reader->changed, &clock);
    pthread_condattr_destroy(&clock);
    uv_async_init(loop, &reader->async, on_ask);
    reader->async.data = reader;
    reader->group = group;
    return reader;
}

void fleet_reader_stop(struct fleet_reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    reader->stopped = true;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
}

void fleet_reader_destroy(struct fleet_reader *reader)
{
    if (!reader)
        return;
    pthread_cond_destroy(&reader->changed);
    pthread_mutex_destroy(&reader->lock);
    free(reader);
}
