/* lease_impl.h - the private structs of a queue and its group, for the .c files in queue/lease/.
 *
 * A queue belongs to a group: the shards of a daemon, or the queue alone. */
#pragma once

#include "conf/limits.h"
#include "queue/lease/end.h"
#include "queue/lease/alone.h"
#include "queue/lease/calls.h"
#include "queue/lease/denial.h"
#include "queue/lease/entry.h"
#include "queue/lease/fetch.h"
#include "queue/lease/group.h"
#include "queue/lease/idle.h"
#include "queue/lease/isolate.h"
#include "queue/lease/outbox.h"
#include "queue/lease/lease.h"
#include "queue/lease/lengths.h"
#include "queue/lease/limit.h"
#include "queue/lease/listen.h"
#include "queue/lease/members.h"
#include "queue/lease/places.h"
#include "queue/lease/queue.h"
#include "queue/lease/read.h"
#include "queue/lease/reap.h"
#include "queue/lease/server.h"
#include "queue/lease/start.h"
#include "queue/lease/timers.h"
#include "queue/lease/wait.h"
#include "queue/lease/watch.h"
#include "queue/redis/connection.h"
#include "queue/redis/route.h"
#include "queue/redis/script.h"

/* The life of a queue; it only goes on to later states. */
enum queue_life {
    LIFE_NEW,     /* before queue_start */
    LIFE_RUNS,
    LIFE_CLOSING, /* takes no more jobs, and waits for the end of its leases */
    LIFE_LEAVING, /* sends LEAVE, and waits for the reply */
    LIFE_SHUT     /* the handles are closing, or closed */
};

/* What the queues of a daemon share. */
struct group {
    uint32_t count;         /* of the queues */
    uint32_t references;    /* queues that are not freed yet, and the owner */
    struct queue *queues[SHARDS_MAX]; /* freed ones are NULL */
    const struct options *options;    /* of the daemon */
    struct options *own;    /* of each queue; NULL: they are those of the caller (queue_create) */
    uint64_t counter;       /* of FETCH and REAP calls; INST and a counter form a token. Shared,
                               because the names of temporary files contain job and counter */
    struct places places;
    struct alone_shared alone;
    struct read_permits reads;
    struct outbox_bytes bytes;

    struct queue_view view; /* group_view */
    char reason[ERROR_TEXT_MAX + 32];
    struct {
        uint32_t unclosed;
        bool ended[SHARDS_MAX]; /* this queue has called back after queue_close */
        void (*closed)(void *context);
        void *context;
    } ending;
};

struct queue {
    struct group *group;
    uint32_t shard;             /* index in the group */
    char log_prefix[16];        /* before log lines: "shard 2: "; "" if there is one */
    uv_loop_t *loop;
    const struct options *options;
    const char *instance;       /* INST */
    struct redis_address address;
    struct queue_events events;
    unsigned short random_state[3]; /* of erand48(); each daemon has another sequence */

    enum queue_life life;
    struct {
        size_t open_handles;
        void (*closed)(void *context); /* NULL: the queue is freed when all handles are closed */
        void *context;
    } ending;

    struct route *route;        /* NULL before queue_start and after the close */
    struct redis *redis;        /* the same. For all commands except BLMOVE and BLPOP */
    struct timers timers;
    struct calls calls;
    struct entries entries;
    struct list reads;          /* read.c */
    struct outbox done, nack;
    struct isolate isolate;
    struct start start;
    struct fetch fetch;
    struct alone alone;
    struct idle idle;
    enum queue_watch watch;
    struct wait wait;
    struct listen listen;
    struct lease_calls leases;
    struct reap reap;
    struct lengths lengths;
    bool server_checked;        /* server.c */
    bool publishing;            /* the last queue_publish has no reply yet */
    struct queue_view view;
};

/* LIFE_CLOSING or later: it takes no more jobs. */
static inline bool queue_is_closing(const struct queue *queue)
{
    return queue->life >= LIFE_CLOSING;
}

/* A FETCH of the queue has no reply yet. */
static inline bool queue_is_fetching(const struct queue *queue)
{
    return queue->fetch.counter != 0;
}

/* The queue fetches, or will when there is a place. */
static inline bool queue_is_active(const struct queue *queue)
{
    return calls_ready(queue) && !queue->idle.now && !queue_is_closing(queue) &&
           !queue->done.refused && !queue->nack.refused;
}

/* Adds a queue to the group, with the group's options of that index. */
struct queue *queue_add(struct group *group, uint32_t index, uv_loop_t *loop,
                        const struct options *options, const char *instance,
                        const struct queue_events *events, struct error *error);
