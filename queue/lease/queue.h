/*
 * queue.h - the lease protocol against Redis (PROTOCOL.md), as the daemon sees it.
 *
 * Loop thread only. The queue keeps its connection up by itself: it reconnects, waits out LOADING
 * and friends, keeps what must not be lost (DONE, NACK) until Redis has acknowledged it, and says
 * so once. A lease handed to `leased` is the daemon's until it calls queue_done, queue_retry or
 * queue_give_back; then it is the queue's again, which frees it after Redis's answer.
 */
#ifndef GPUIMGD_QUEUE_LEASE_QUEUE_H
#define GPUIMGD_QUEUE_LEASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "conf/list.h"
#include "conf/status.h"
#include "queue/job/job.h"

struct queue;

/* One attempt at one job. */
struct lease {
    struct list_node node;  /* the queue's */
    uint64_t number;
    char *raw;              /* the job's text, NUL-terminated after raw_bytes; NULL if it was over
                               JOB_BYTES_MAX. malloc'd: the daemon frees it early and sets NULL */
    size_t raw_bytes;
    char *head;             /* without raw: its first bytes, JOB_EXCERPT_BYTES_MAX at most */
    size_t head_bytes;
    uint32_t attempt;       /* 1 = first */
    uint32_t attempts_max;
    uint64_t fetch;         /* the daemon's fetch counter: with INST this is the token */
    bool marked;            /* a cancel may be meant for it: with an id, ask before it starts */
    bool alone;             /* last attempt, no other job may run beside it */
    bool lost;              /* another daemon has it: do not rename into place, do not answer */
    bool settled;           /* the daemon has ended it */
    const struct error *denied; /* NULL, or why an output could not be stored under its key: the
                               job failed, although the daemon answered that it is done */
    void *job;              /* the daemon's */
    const char *id;         /* the job's, set by the daemon as long as it lives; or NULL. Cancels of
                               it are heard of while the lease runs */
    void *pending;          /* the queue's */
};

/* All that is at hand of a job's text, or NULL. */
static inline const char *lease_text(const struct lease *lease, size_t *bytes)
{
    *bytes = lease->raw ? lease->raw_bytes : lease->head_bytes;
    return lease->raw ? lease->raw : lease->head;
}

/* An output that is stored in Redis in the same atomic step as the result. */
struct queue_value {
    const char *key;   /* borrowed from the job's text; copied by the queue */
    uint8_t *value;    /* malloc'd, owned by the queue once it is in an answer */
    size_t bytes;
    uint32_t ttl_s;    /* 0 = none */
};

/* What a job comes to. */
struct queue_answer {
    char *result;               /* JSON, malloc'd, taken over; NULL: there was no memory for it */
    const char *id, *reply_to;  /* or NULL; copied */
    bool unique;                /* the id is free from now on */
    struct queue_value *values; /* their bytes are taken over, the array stays the caller's */
    size_t value_count;
};

/* What a job says about its start. */
struct queue_conditions {
    const char *id;             /* or NULL; copied */
    bool unique;                /* needs an id */
    struct job_time not_before, expires;
};

enum start_decision {
    START_GO,
    START_WAITS,     /* not now: the lease has ended, the daemon gives it back without asking why */
    START_EXPIRED,
    START_DUPLICATE, /* the first job with its id answers it, by the result that comes along */
    START_CANCELLED  /* comes for leases with an id unasked, too */
};

/* Where results go, but for those that a job's reply_to takes. */
enum queue_results {
    QUEUE_RESULTS_LIST, /* NS:results, and NS:result:ID of jobs with an id */
    QUEUE_RESULTS_ID,   /* NS:result:ID alone: of a job without an id, nowhere */
    QUEUE_RESULTS_NONE  /* NS:result:ID of unique jobs, which need it; of others nowhere */
};

struct queue_config {
    const char *redis;          /* see address.h */
    const char *username;       /* NULL or "" = none */
    const char *password_file;  /* NULL or "" = none; read at each connect, trailing newline cut */
    const char *sentinel_username, *sentinel_password_file; /* the same, for Sentinels */
    uint32_t database;
    const char *ns;
    const char *instance;       /* INST (instance.h) */
    double lease_s, renew_s, reap_s, retry_delay_s, block_s, connect_timeout_s, command_timeout_s;
    double auth_retry_s;
    uint32_t attempts, batch;
    double result_ttl_s;
    enum queue_results results;
    uint64_t results_max, dead_max;
};

struct queue_events {
    void *context;
    void (*leased)(void *context, struct lease *lease);
    /* The lease is another's now. lease->lost is set already; the daemon still ends it as any
     * other (which then tells Redis nothing). */
    void (*lost)(void *context, struct lease *lease);
    /* Redis acknowledged (or called stale) a lease's end; the lease is gone after this returns.
     * `dead`: a retry found no attempt left. Counts for the stats. */
    void (*settled)(void *context, struct lease *lease, bool stale, bool dead);
    /* The answer to queue_ask. kept: of START_DUPLICATE, for the length of the call. */
    void (*start_decided)(void *context, struct lease *lease, enum start_decision decision,
                          const char *kept);
};

enum queue_state { QUEUE_CONNECTING, QUEUE_READY, QUEUE_WAITING /* Redis is there but refuses */ };

struct queue_view {
    enum queue_state state;
    const char *reason;     /* why not READY, a sentence; "" when READY */
    bool paused;            /* NS:paused was there at the last fetch */
    uint64_t length;        /* LLEN NS:jobs at the last fetch */
    uint64_t results, dead_listed, delayed; /* of NS:results, NS:dead, NS:delayed at a RENEW */
    uint64_t unacknowledged; /* ended, not yet acknowledged */
    uint64_t redelivered, stale, dropped, dead, trimmed; /* since start */
    uint64_t connects;      /* how often the connection came about */
    char version[32];       /* of the first server, "" before it is known */
};

/* NULL when the address cannot be understood (or is rediss://): error says why. Nothing is
 * connected before queue_start. */
struct queue *queue_create(uv_loop_t *loop, const struct queue_config *config,
                           const struct queue_events *events, struct error *error);
void queue_start(struct queue *queue);
/* Takes over what a reload may change: lease timings stay, result_ttl_s, results,
 * results_max, dead_max. */
void queue_reload(struct queue *queue, const struct queue_config *config);

/* How many more leases the daemon has places for. Fetching follows this number: the queue asks
 * Redis for at most min(places, batch) at once. 0 pauses. */
void queue_set_places(struct queue *queue, uint32_t places);

/* Asks Redis whether the job may be started; `ruled` comes from the loop, unless the lease is lost
 * or ended before. False: no memory to ask. Only jobs with conditions, and marked ones with an id,
 * need to be asked about. */
bool queue_ask(struct queue *queue, struct lease *lease, const struct queue_conditions *conditions);

/* Ends a lease with its answer. false, here and below: there was no memory to keep the answer
 * whole, and the lease is given back instead. */
bool queue_done(struct queue *queue, struct lease *lease, const struct queue_answer *answer);
/* The attempt counts; again after 1 s, 4 s, ... 1 h. Where none is left (queue_last_attempt) the
 * job is dead, with the answer as the last word, and only there is it needed: else NULL. */
bool queue_retry(struct queue *queue, struct lease *lease, const struct queue_answer *answer);
bool queue_last_attempt(const struct lease *lease);
/* Drain, or a neighbour's fault: at once, the attempt is given back. */
void queue_give_back(struct queue *queue, struct lease *lease);

/* Reads an image that lies in Redis. The callback gets malloc'd bytes (its own from then on), or an
 * error: input_missing, input_too_large, input_unreadable. Only so many bytes are in memory at a
 * time as limits.h allows beside host_bytes (READS_*): whoever gets some calls queue_read_release
 * with their length once they are freed. Returns a handle for queue_read_cancel, after which the
 * callback does not come; NULL when memory is short. */
#define QUEUE_READ_LARGE (64 * KIB)
typedef void (*queue_read_cb)(void *context, uint8_t *bytes, size_t length,
                              const struct error *error);
void *queue_read(struct queue *queue, const char *key, uint64_t bytes_max, queue_read_cb callback,
                 void *context);
void queue_read_release(struct queue *queue, size_t length);
void queue_read_cancel(struct queue *queue, void *handle);

const struct queue_view *queue_view(struct queue *queue);

/* Puts a text under NS:stats:INST for so long; for whoever looks (gpuimgctl). Where Redis is away,
 * or has not taken the last one yet, this one is forgotten. */
void queue_publish(struct queue *queue, const char *text, double ttl_s);

/* Drain: no more fetches. closed is called once everything unacknowledged has been acknowledged
 * (running leases are waited for too) and the connections are closed, or after timeout_s. Then
 * queue_destroy may be called, which frees all leases that are left. A queue that was started and
 * not closed is destroyed by the loop's next turns; nothing is called back then. */
void queue_close(struct queue *queue, double timeout_s, void (*closed)(void *context),
                 void *context);
void queue_destroy(struct queue *queue);

#endif
