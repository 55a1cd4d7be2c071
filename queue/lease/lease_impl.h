/* lease_impl.h - struct queue and struct group, private to the .c files in queue/lease/.
 *
 * Each queue belongs to a group, which has one queue per shard of the daemon. A member that is a
 * struct with the name of a header here, for example `fetch`, is explained there. */
#pragma once

#include "conf/limits.h"
#include "queue/lease/end.h"
#include "queue/lease/alone.h"
#include "queue/lease/calls.h"
#include "queue/lease/denial.h"
#include "queue/lease/entry.h"
#include "queue/lease/fetch.h"
#include "queue/lease/fleet.h"
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
#include "queue/lease/store.h"
#include "queue/lease/timers.h"
#include "queue/lease/wait.h"
#include "queue/lease/watch.h"
#include "queue/redis/connection.h"
#include "queue/redis/route.h"
#include "queue/redis/script.h"

/* The states of a queue, in order. A queue never returns to an earlier one. */
enum queue_life {
    LIFE_NEW, /* before queue_start */
    LIFE_RUNS,
    LIFE_CLOSING, /* fetches no more jobs, and waits until its leases have ended */
    LIFE_LEAVING, /* sends LEAVE, and waits for the reply */
    LIFE_SHUT     /* the handles are closing, or closed */
};

/* The outstanding call of FLEET; all zero: none is. */
struct fleet_call {
    uint32_t first;
    fleet_done done;
    void *context;
};

/* What the queues of a daemon share. */
struct group {
    uint32_t count;         /* of the queues */
    uint32_t references;    /* see members.h */
    struct queue *queues[SHARDS_MAX]; /* freed ones are NULL */
    const struct options *options;    /* of the daemon, borrowed */
    struct options *own; /* a copy for each queue; NULL after queue_create, which needs none */
    uint64_t counter;    /* of the last FETCH or REAP. INST and a counter form a token. The
                            shards share it, because the names of temporary files contain only
                            a job number and a counter */
    struct places places;
    struct alone_shared alone;
    struct read_permits reads;
    struct store_permits stores;
    struct outbox_bytes bytes;

    struct queue_view view;           /* result of group_view */
    char reason[ERROR_TEXT_MAX + 32]; /* view.reason */
    struct {
        uint32_t unclosed;      /* queues whose queue_close has not called back yet */
        bool ended[SHARDS_MAX]; /* queues whose queue_close has called back */
        void (*closed)(void *context);
        void *context;
    } ending;
};

struct queue {
    struct group *group;
    uint32_t shard;             /* index in the group */
    char log_prefix[16];        /* "shard 2: "; "" if the daemon has one shard */
    uv_loop_t *loop;
    const struct options *options;
    const char *instance; /* INST, borrowed */
    struct redis_address address;
    struct queue_events events;
    unsigned short random_state[3]; /* of erand48() */

    enum queue_life life;
    struct {
        size_t open_handles;           /* timers, connections and the route */
        void (*closed)(void *context); /* NULL: the queue is freed when all handles are closed */
        void *context;
    } ending;

    struct route *route;        /* NULL before queue_start and after the close */
    struct redis *redis;        /* the same. The main connection, for all commands
                                   except BLMOVE and BLPOP */
    struct timers timers;
    struct calls calls;
    struct entries entries;
    struct list reads; /* of struct read: read.c */
    struct stores stores;
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
    struct fleet_call fleet;
    bool server_checked;        /* server.c has read the reply to INFO */
    bool publishing;            /* the last queue_publish has no reply yet */
    struct queue_view view;
};

/* The queue fetches no more jobs. */
static inline bool queue_is_closing(const struct queue *queue)
{
    return queue->life >= LIFE_CLOSING;
}

/* A FETCH of the queue is outstanding. */
static inline bool queue_is_fetching(const struct queue *queue)
{
    return queue->fetch.counter != 0;
}

/* The queue fetches when it has a free place. While Redis refuses DONE or NACK, it does not: more
 * ended jobs would only pile up. */
static inline bool queue_is_active(const struct queue *queue)
{
    return calls_ready(queue) && !queue->idle.now && !queue_is_closing(queue) &&
           !queue->done.refused && !queue->nack.refused;
}

/* Creates the queue of shard `index`, as queue_create does, and adds it to the group. */
struct queue *queue_add(struct group *group, uint32_t index, uv_loop_t *loop,
                        const struct options *options, const char *instance,
                        const struct queue_events *events, struct error *error);
