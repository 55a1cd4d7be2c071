#include "queue/redis/lookup.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct lookup {
    uv_async_t async;
    pthread_mutex_t lock;
    bool dropped;              /* under `lock`: the handle is closing, do not signal it */
    atomic_int holders;        /* references: the thread and the handle; the last one frees */
    struct redis_endpoint server;
    lookup_cb callback;
    void *context;
    int status;                /* returned by getaddrinfo */
    struct addrinfo *found;
};

static void leave(struct lookup *lookup)
{
    if (atomic_fetch_sub(&lookup->holders, 1) > 1)
        return;
    if (lookup->found) /* uncovered: moment */
        freeaddrinfo(lookup->found);
    pthread_mutex_destroy(&lookup->lock);
    free(lookup);
}

static void *look_up(void *context)
{
    struct lookup *lookup = context;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    lookup->status = getaddrinfo(lookup->server.host, lookup->server.port, &hints,
                                 &lookup->found);
    if (lookup->status != 0)
        lookup->found = NULL;
    pthread_mutex_lock(&lookup->lock);
    if (!lookup->dropped)
        uv_async_send(&lookup->async);
    pthread_mutex_unlock(&lookup->lock);
    leave(lookup);
    return NULL;
}

static void closed(uv_handle_t *handle)
{
    leave(handle->data);
}

void lookup_drop(struct lookup *lookup)
{
    if (!lookup)
        return;
    pthread_mutex_lock(&lookup->lock);
    lookup->dropped = true;
    pthread_mutex_unlock(&lookup->lock);
    uv_close((uv_handle_t *)&lookup->async, closed);
}

static void looked_up(uv_async_t *async)
{
    struct lookup *lookup = async->data;
    lookup_drop(lookup); /* takes the lock, so the thread no longer uses the handle */
    struct addrinfo *found = lookup->found;
    lookup->found = NULL;
    lookup->callback(lookup->context, found,
                     found ? NULL : lookup->status ? gai_strerror(lookup->status) : "no address");
}

/* The thread is detached. It blocks all signals, which the loop thread must receive. */
static bool start_thread(struct lookup *lookup)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0) /* uncovered: memory */
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, &attributes, look_up, lookup) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

struct lookup *lookup_start(uv_loop_t *loop, const struct redis_endpoint *server,
                            lookup_cb callback, void *context)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup) /* uncovered: memory */
        return NULL;
    lookup->server = *server;
    lookup->callback = callback;
    lookup->context = context;
    lookup->async.data = lookup;
    pthread_mutex_init(&lookup->lock, NULL);
    atomic_init(&lookup->holders, 1);
    if (uv_async_init(loop, &lookup->async, looked_up) != 0) {
        leave(lookup); /* uncovered: memory */
        return NULL;
    }
    atomic_store(&lookup->holders, 2);
    if (!start_thread(lookup)) { /* uncovered: memory */
        atomic_store(&lookup->holders, 1);
        lookup_drop(lookup);
        return NULL;
    }
    return lookup;
}
