/* queue.h - the daemon's side of the job queue in Redis: takes leases on jobs and ends them.
 *
 * A lease is the right to run one attempt of a job for a limited time. PROTOCOL.md defines how
 * leases are stored in Redis. The queue connects and reconnects by itself. It waits while Redis
 * refuses commands. It keeps the results of jobs until Redis has acknowledged them.
 *
 * The daemon owns a lease from the event `leased` until it ends the lease with queue_done,
 * queue_retry, queue_give_back or queue_give_back_later. After that the queue owns the lease, and
 * frees it when Redis has acknowledged the end.
 *
 * Loop thread only. Times in seconds are doubles named *_s. */
#pragma once

#include <uv.h>

#include "conf/limits.h"
#include "conf/list.h"
#include "conf/options.h"
#include "conf/rank.h"
#include "conf/status.h"
#include "queue/job/job.h"

struct queue;

/* One attempt at one job. */
struct lease {
    struct list_node node;  /* used by the queue */
    struct queue *queue;    /* that fetched the job */
    uint64_t number;        /* of the job */
    uint32_t shard, shards; /* index of the queue's shard, and number of the daemon's shards */
    char *raw;              /* the JSON of the job, malloc'd, with a NUL after raw_bytes. NULL if it
                               is longer than JOB_BYTES_MAX. The daemon may free it before the lease
                               ends, and set it to NULL */
    size_t raw_bytes;
    size_t raw_bytes_max;   /* if raw is NULL: the longest text that FETCH asked for. Less than
                               JOB_BYTES_MAX after longer replies broke connections (limit.h) */
    char *head;             /* if raw is NULL: the first bytes of the JSON, JOB_EXCERPT_BYTES_MAX at
                               most, or NULL */
    size_t head_bytes;
    uint32_t attempt;       /* 1 = first */
    uint32_t attempts_max;
    uint32_t priority;      /* of the list that it came from */
    uint64_t fetch;         /* counter of the FETCH call. INST, the name of this daemon process
                               (instance.h), and this counter form the token, which identifies the
                               lease in Redis */
    bool may_be_cancelled;  /* a cancel may apply to the job. If it has an id, call queue_ask
                               before the job starts */
    bool alone;             /* the last attempt of a job that may have killed a daemon: the daemon
                               runs no other job at the same time */
    bool lost;              /* another daemon has the job: write no output, post no result */
    bool ended;             /* the daemon has ended the lease; Redis may not have acknowledged it */
    const struct error *denied; /* set if Redis denied the key of an output: the job failed even
                               though the daemon called queue_done. Else NULL */
    void *job;              /* for the daemon */
    const char *id;         /* set by the daemon, borrowed, or NULL: the job's id. If it is set, a
                               cancel of the running job is reported by start_decided */
    void *pending;          /* used by the queue */
};

/* Returns the text of the job, or its first bytes, or NULL. */
static inline const char *lease_text(const struct lease *lease, size_t *bytes)
{
    *bytes = lease->raw ? lease->raw_bytes : lease->head_bytes;
    return lease->raw ? lease->raw : lease->head;
}

static inline struct job_name lease_name(const struct lease *lease)
{
    return (struct job_name){lease->number, lease->shard, lease->shards};
}

/* An output that Redis stores under a key: in the same atomic step as the result, or before it
 * (queue_store). */
struct queue_value {
    const char *key;   /* borrowed; copied by the queue */
    uint8_t *value;    /* malloc'd; owned by the queue once it is passed in an answer */
    size_t bytes;
    uint32_t ttl_s;    /* 0 = none */
};

/* The result of a job, and the outputs that Redis stores. */
struct queue_answer {
    char *result;               /* JSON, malloc'd; the queue takes ownership. NULL: out of memory */
    const char *id, *reply_to;  /* or NULL; copied */
    bool unique;                /* the job is unique: its end makes the id free for another job */
    struct queue_value *values; /* the queue takes ownership of each value, not of the array */
    size_t value_count;
};

/* The conditions under which a job may start. */
struct queue_conditions {
    const char *id;             /* or NULL; copied */
    bool unique;                /* requires an id */
    struct job_time not_before, expires;
};

/* The answer of Redis to queue_ask. The script START replies with these numbers. */
enum start_decision {
    START_GO = 1,
    START_WAITS, /* not now. The lease has ended in Redis; call queue_give_back */
    START_EXPIRED,
    START_DUPLICATE, /* the first unique job with this id has ended: answer with its kept result */
    START_CANCELLED  /* also reported without queue_ask, for leases with an id */
};

struct queue_events {
    void *context;
    /* The daemon has a new lease. */
    void (*leased)(void *context, struct lease *lease);
    /* Another daemon has the job now; lease->lost is set. The daemon must still end the lease, but
     * nothing is sent to Redis. */
    void (*lost)(void *context, struct lease *lease);
    /* Redis acknowledged the end of a lease. The lease is freed after this call. `stale`: the lease
     * was no longer this daemon's, or a shard that was away dropped its end (group.h). `dead`:
     * queue_retry found no attempt left. */
    void (*settled)(void *context, struct lease *lease, bool stale, bool dead);
    /* The answer to queue_ask. `kept`, valid during this call: for START_DUPLICATE the result, for
     * START_EXPIRED how often the disk had no room for the job, or "". */
    void (*start_decided)(void *context, struct lease *lease, enum start_decision decision,
                          const char *kept);
    /* Optional. A reply of Redis causes several calls of `leased` or `settled`; this follows the
     * last one. */
    void (*batch_ended)(void *context);
};

enum queue_state { QUEUE_CONNECTING, QUEUE_READY, QUEUE_WAITING /* connected, but refused */ };

/* A snapshot for status displays. */
struct queue_view {
    enum queue_state state;
    const char *reason;     /* why the state is not QUEUE_READY, a sentence; "" if it is */
    bool paused;            /* NS:paused existed at the last FETCH */
    uint64_t length;        /* jobs in NS:jobs and NS:jobs:0 to :9 at the last FETCH or LOOK */
    uint64_t lengths[JOB_PRIORITIES]; /* in NS:jobs:0 to NS:jobs:9 */
    double oldest_s; /* upper bound of the age of the oldest of these jobs; 0 without jobs */
    uint64_t results, dead_listed, delayed; /* entries of NS:results, NS:dead, NS:delayed */
    uint64_t unacknowledged;                /* leases whose end Redis has not acknowledged yet */
    uint64_t redelivered, stale, dropped, dead, trimmed; /* counters since the start; see
                                                            daemon/telemetry/metrics.def */
    uint64_t connects;      /* successful connects since the start */
    char version[32];       /* of the first Redis server; "" until it is known */
};

/* `options` and `instance` (INST, the name of this daemon process: instance.h) must outlive the
 * queue; reloaded options take effect with the next call of a script. Returns NULL with `error` set
 * if options->redis is not a valid address or if memory is short. Does not connect before
 * queue_start. */
struct queue *queue_create(uv_loop_t *loop, const struct options *options, const char *instance,
                           const struct queue_events *events, struct error *error);
void queue_start(struct queue *queue);

/* The prefix of all keys of the queue. The string lives as long as the queue. */
const char *queue_namespace(const struct queue *queue);

/* Sets the number of free places: how many more leases the daemon can take. The queue fetches at
 * most min(places, batch) jobs per call, where `batch` is the option. 0 pauses fetching. Only for
 * queues of queue_create; see group_set_places. */
void queue_set_places(struct queue *queue, uint32_t places);

/* Asks Redis if the job may start. start_decided is called later from the loop, unless the lease is
 * lost or ended first. Required only for jobs with conditions, and for jobs with an id if
 * lease->may_be_cancelled is set. Returns false if memory is short. */
bool queue_ask(struct queue *queue, struct lease *lease, const struct queue_conditions *conditions);

/* Each of the next functions, except queue_last_attempt, ends a lease (end.c). queue_done and
 * queue_retry return false if memory is short for the answer; they then work like
 * queue_give_back. */
bool queue_done(struct queue *queue, struct lease *lease, const struct queue_answer *answer);
/* Counts the attempt and delays the job: 1 s, 4 s, 16 s, ... at most 1 h. If no attempt is left
 * (queue_last_attempt), the job is dead and `answer` is its result. Else `answer` is NULL. */
bool queue_retry(struct queue *queue, struct lease *lease, const struct queue_answer *answer);
bool queue_last_attempt(const struct lease *lease);
/* Returns the job to the queue at once and does not count the attempt: for a drain, or if another
 * job is at fault. */
void queue_give_back(struct queue *queue, struct lease *lease);
/* Delays the job and does not count the attempt, for example because the disk is full. The delays
 * are 1 s, 4 s, 16 s, ... at most 5 min; they also grow if other attempts are between them. */
void queue_give_back_later(struct queue *queue, struct lease *lease);

/* Images of at least this size count as large: see READS_* in limits.h. */
#define QUEUE_READ_LARGE (64 * KIB)
/* Reads an image that is stored in the queue's Redis. The callback gets either malloc'd bytes, and
 * owns them, or one of the errors input_missing, input_too_large and input_unreadable.
 *
 * READS_* in limits.h bound the memory of all reads of all shards. Therefore the owner of the
 * bytes must call queue_read_release with their length after freeing them.
 *
 * rank: of the job. Reads that wait are in the order of their ranks. NULL: after all others.
 * Returns a handle for queue_read_cancel, after which the callback is not called. Returns NULL if
 * memory is short. */
typedef void (*queue_read_cb)(void *context, uint8_t *bytes, size_t length,
                              const struct error *error);
void *queue_read(struct queue *queue, const char *key, uint64_t bytes_max, const struct rank *rank,
                 queue_read_cb callback, void *context);
void queue_read_release(struct queue *queue, size_t length);
void queue_read_cancel(struct queue *queue, void *handle);

/* Stores an output of an image of a job with many images, before the job ends. Redis may be away:
 * the output then waits. Takes ownership of value->value; copies the key. The callback gets NULL,
 * or one of these errors: path_refused if an ACL denies the key or Redis cannot take so many bytes;
 * write_failed if this is one of several shards, and was away for lease_s.
 *
 * rank: of the image. Outputs that wait are in the order of their ranks. Returns a handle for
 * queue_store_cancel, after which the callback is not called; Redis may have the output
 * nevertheless if it was sent. Returns NULL if memory is short. */
typedef void (*queue_store_cb)(void *context, const struct error *error);
void *queue_store(struct queue *queue, const struct queue_value *value, const struct rank *rank,
                  queue_store_cb callback, void *context);
void queue_store_cancel(struct queue *queue, void *handle);

/* Updates and returns the queue's snapshot. The queue owns it. */
const struct queue_view *queue_view(struct queue *queue);

/* Stores the daemon's statistics (JSON) at NS:stats:INST, which expires after ttl_s. The text is
 * dropped if Redis is unavailable or has not answered the previous call. */
void queue_publish(struct queue *queue, const char *text, double ttl_s);

/* Drains the queue: fetches nothing more, waits until all leases have ended and Redis has
 * acknowledged it, and closes the connections. Stops waiting after timeout_s. Then calls `closed`,
 * after which queue_destroy may be called. A second call before that sets another timeout. */
void queue_close(struct queue *queue, double timeout_s, void (*closed)(void *context),
                 void *context);
/* Frees the queue and the leases that are left. A queue that was started but not closed is freed
 * during the next turns of the loop, without further callbacks. */
void queue_destroy(struct queue *queue);
