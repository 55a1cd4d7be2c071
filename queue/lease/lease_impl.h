/* lease_impl.h - the private structs of a queue and its group, for the .c files in queue/lease/.
 *
 * A queue belongs to a group: the shards of a daemon, or the queue alone. */
#pragma once

#include "conf/limits.h"
#include "queue/lease/ack.h"
#include "queue/lease/alone.h"
#include "queue/lease/calls.h"
#include "queue/lease/denial.h"
#include "queue/lease/entry.h"
#include "queue/lease/fetch.h"
#include "queue/lease/group.h"
#include "queue/lease/idle.h"
#include "queue/lease/isolate.h"
#include "queue/lease/lane.h"
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
    uint32_t count;            /* of the queues */
    uint32_t references;       /* queues that are not freed yet, and the owner */
    struct queue *queues[SHARDS_MAX]; /* freed ones are NULL */
    const struct options *options;    /* of the daemon */
    struct options *own;       /* of each queue, if there are several; else NULL */

    bool open;                 /* the daemon takes jobs if it has places; for several queues */
    uint32_t places;           /* how many more leases the daemon can take */
    uint32_t spare;            /* further leases, if the places have no jobs (places_room) */
    uint32_t reserved;         /* of both, for jobs that outstanding FETCH calls may bring */
    uint64_t turns;            /* number of FETCH calls */
    uint64_t counter;          /* of FETCH and REAP calls; INST and a counter form a token. Shared,
                                  because the names of temporary files contain job and counter */
    uint64_t alone_since_ms;   /* when a queue got the right to run jobs alone, uv_now */
    uint64_t alone_rest_ms;    /* no queue claims the right before this time */
    unsigned alone_taken;      /* jobs alone since a queue got the right */
    unsigned rooms[ROOM_KINDS]; /* reads sent, or not yet released by the caller */
    unsigned wakes[ROOM_KINDS]; /* calls of wake (read.c) since the outermost one began */
    size_t large_bytes;        /* of the large reads whose length is known */
    uint32_t reads_next;       /* the queue whose reads get free room first */
    size_t sent_bytes;         /* of large DONE and NACK calls without a reply, of all shards. At
                                  most KEY_OUTPUTS_BYTES_MAX, or one call. Not counted with one
                                  shard */
    struct lane *first_lane;   /* the lane that sends the next large call; NULL: any */

    struct queue_view view;    /* group_view; this and the rest: for several queues */
    char reason[ERROR_TEXT_MAX + 32];
    uint32_t unclosed;
    bool ended[SHARDS_MAX];    /* this queue has called back after queue_close */
    void (*closed)(void *context);
    void *closed_context;
};

struct queue {
    struct group *group;
    uint32_t shard;            /* index in the group */
    char mark[16];             /* before log lines: "shard 2: "; "" if there is one */
    uv_loop_t *loop;
    const struct options *options;
    const char *instance; /* INST */
    struct redis_address address;
    struct queue_events events;
    /* These pointers are NULL before queue_start and after the close. */
    struct route *route;
    struct redis *redis;        /* for all commands except BLMOVE and BLPOP */
    struct redis *blocking;     /* for BLMOVE and BLPOP */
    struct redis *listening;    /* gets a message when a list with a priority changes. NULL until
                                   this daemon is the watcher for the first time */
    uv_timer_t timers[TIMER_COUNT];
    void (*timer_expired)(struct queue *queue, enum queue_timer timer);
    unsigned short random_state[3]; /* of erand48(); each daemon has another sequence */
    size_t open_handles;
    enum queue_life life;
    unsigned leaves_out;       /* LEAVE without a reply */
    bool destroyed;            /* it is freed when all handles are closed */
    void (*closed)(void *context);
    void *closed_context;

    struct list entries, running;
    struct lane done, nack;
    struct list asks, asked;   /* START questions: waiting, and those of the outstanding call */
    struct list reads;

    struct reap reap;
    uint64_t fetch_out;        /* counter of the outstanding call; 0: none */
    uint32_t fetch_places;     /* reserved for the outstanding FETCH */
    size_t fetch_text_bytes;   /* the largest text that the last FETCH asked for */
    bool fetch_claims;         /* it may claim the right to run jobs alone */
    uint64_t turn, claim_turn; /* group->turns at the last FETCH, and at the last one that claims */
    uint64_t accepted_ms;      /* when Redis last accepted a call, uv_now */
    bool proved;               /* Redis has answered a call on this connection */
    uint64_t proved_ms;        /* the first, uv_now */
    uint32_t broken;           /* bit S: the last call of script S had no reply */
    unsigned breaks;           /* connections that broke without an answer while `broken` is set */
    bool connected;            /* between main_up and main_down */
    struct limit fetch_limit, start_limit, reap_limit;
    unsigned long long bulk_max; /* Redis's proto-max-bulk-len; 0: not known */
    size_t blamed_bytes;       /* of an end that Redis did not take; 0: none yet */
    uint64_t fetch_ms;         /* time of the last FETCH, uv_now */
    uint64_t look_ms;          /* time of the last LOOK, uv_now */
    struct queue_age age;
    bool delivering;           /* inside a loop over `leased` events: do not FETCH */
    bool idle;                 /* the last FETCH left NS:jobs empty, or NS:paused existed */
    enum queue_watch watch;
    bool looking;              /* a LOOK is outstanding */
    enum queue_wait wait;
    bool wait_refused;         /* Redis refused the last wait; TIMER_IDLE tries again */
    long long blocking_id;     /* Redis's id of the connection `blocking`; 0: not known */
    long long listener;        /* Redis's id of the connection `listening`; 0: not known */
    bool subscribed;           /* it gets messages */
    bool listen_refused;       /* Redis refused to report changes; a new connection asks again */
    bool tracking;             /* the main connection has its changes reported to `listener` */
    bool armed;                /* a message comes when a list with a priority changes */
    unsigned lists_refused;    /* bit P: NS:jobs:P is no list, or is denied */
    long long horizon;         /* highest job number that a cancel can apply to; -1: none */
    bool lengths_due;          /* call lengths_ask after the reply of RENEW */
    bool results_fill;         /* the warning that the results are nearly full was logged */
    bool publishing;           /* the last queue_publish has no reply yet */
    bool alone;                /* this daemon has the right to run jobs alone */

    int resumes_due;           /* RESUME calls still to send */
    unsigned resumes_out, renews_out; /* calls without a reply */
    bool server_checked;       /* version and eviction policy were checked */

    bool backs_off;            /* TIMER_BACKOFF runs */
    uint64_t backoff_ms;       /* length of the next one */
    char logged_refusal[SCRIPT_ID_COUNT][ERROR_TEXT_MAX]; /* the last refusal in the log */
    char reason[ERROR_TEXT_MAX + 32]; /* view.reason: an error of Redis and its explanation */
    struct queue_view view;
};

/* LIFE_CLOSING or later: it takes no more jobs. */
static inline bool queue_is_closing(const struct queue *queue)
{
    return queue->life >= LIFE_CLOSING;
}

/* The queue fetches, or will when there is a place. */
static inline bool queue_is_active(const struct queue *queue)
{
    return calls_ready(queue) && !queue->idle && !queue_is_closing(queue) && !queue->done.refused &&
           !queue->nack.refused;
}

/* Adds a queue to the group, with the group's options of that index. */
struct queue *queue_add(struct group *group, uint32_t index, uv_loop_t *loop,
                        const struct options *options, const char *instance,
                        const struct queue_events *events, struct error *error);
void queue_close_check(struct queue *queue);
void queue_shut_soon(struct queue *queue); /* by a timer */
