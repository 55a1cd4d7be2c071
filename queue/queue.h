/*
 * queue.h - the lease protocol against Redis (PROTOCOL.md), as the daemon sees it.
 *
 * Loop thread only. The queue keeps its connection up by itself: it reconnects, waits out LOADING
 * and friends, keeps what must not be lost (DONE, NACK) until Redis has acknowledged it, and says
 * so once. A lease handed to `leased` is the daemon's until it calls queue_done or queue_nack;
 * then it is the queue's again, which frees it after Redis's answer.
 */
#ifndef GPUIMGD_QUEUE_QUEUE_H
#define GPUIMGD_QUEUE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "conf/list.h"
#include "conf/status.h"

struct queue;

/* One attempt at one job. */
struct lease {
    struct list_node node;  /* the queue's */
    uint64_t number;
    char *raw;              /* the job's text, NUL-terminated behind raw_bytes; NULL if it was
                               over JOB_BYTES_MAX */
    size_t raw_bytes;
    uint32_t attempt;       /* 1 = first */
    uint32_t attempts_max;
    uint64_t fetch;         /* the daemon's fetch counter: with INST this is the token */
    bool alone;             /* last attempt, no other job may run beside it */
    bool lost;              /* another daemon has it: do not rename into place, do not answer */
    bool settled;           /* queue_done or queue_nack was called */
    void *job;              /* the daemon's */
    void *pending;          /* the queue's */
};

/* An output that DONE stores in Redis in the same atomic step as the result. */
struct queue_value {
    const char *key;   /* borrowed from the job's text; copied by the queue */
    uint8_t *value;    /* malloc'd, owned by the queue from queue_done on */
    size_t bytes;
    uint32_t ttl_s;    /* 0 = none */
};

struct queue_config {
    const char *redis;          /* "host:port", "[v6]:port", "unix:/path"; rediss:// is refused */
    const char *username;       /* NULL or "" = none */
    const char *password_file;  /* NULL or "" = none; read at each connect, trailing newline cut */
    uint32_t database;
    const char *ns;
    const char *instance;       /* INST (instance.h) */
    double lease_s, renew_s, reap_s, retry_delay_s, block_s, connect_timeout_s, command_timeout_s;
    double auth_retry_s;
    uint32_t attempts, batch;
    double result_ttl_s;
    uint64_t results_max, dead_max;
};

struct queue_events {
    void *context;
    void (*leased)(void *context, struct lease *lease);
    /* The lease is another's now. lease->lost is set already; the daemon still ends it with
     * queue_done or queue_nack (which then tell Redis nothing). */
    void (*lost)(void *context, struct lease *lease);
    /* Redis acknowledged (or called stale) a queue_done or queue_nack; the lease is gone after
     * this returns. `dead`: a nack found no attempt left. Counts for the stats. */
    void (*settled)(void *context, struct lease *lease, bool stale, bool dead);
};

enum queue_state { QUEUE_CONNECTING, QUEUE_READY, QUEUE_WAITING /* Redis is there but refuses */ };

struct queue_view {
    enum queue_state state;
    const char *reason;     /* why not READY, a sentence; "" when READY */
    uint64_t length;        /* LLEN NS:jobs at the last fetch */
    uint64_t unacknowledged; /* done or nacked, not yet acknowledged */
    uint64_t redelivered, stale, dropped, dead, trimmed; /* since start */
};

/* NULL when the address cannot be understood (or is rediss://): error says why. Nothing is
 * connected before queue_start. */
struct queue *queue_create(uv_loop_t *loop, const struct queue_config *config,
                           const struct queue_events *events, struct error *error);
void queue_start(struct queue *queue);
/* Takes over what a reload may change: lease timings stay, result_ttl_s, results_max, dead_max. */
void queue_reload(struct queue *queue, const struct queue_config *config);

/* How many more leases the daemon has places for. Fetching follows this number: the queue asks
 * Redis for at most min(places, batch) at once. 0 pauses. */
void queue_set_places(struct queue *queue, uint32_t places);

/* Ends a lease with its result. result: JSON text, malloc'd, taken over. id and reply_to may be
 * NULL, are copied. Of values[0..count) the bytes are taken over; the array stays the caller's. */
void queue_done(struct queue *queue, struct lease *lease, char *result, const char *id,
                const char *reply_to, struct queue_value *values, size_t count);
enum nack_kind {
    NACK_RETRY,    /* the attempt counts; again after 1 s, 4 s, ... 1 h; dead when none is left,
                      with `result` (JSON, malloc'd, taken over) as the last word */
    NACK_GIVE_BACK /* drain, or a neighbour's fault: at once, the attempt is given back */
};
void queue_nack(struct queue *queue, struct lease *lease, enum nack_kind kind, char *result,
                const char *id, const char *reply_to);

/* Reads an image that lies in Redis: STRLEN, then GET. The callback gets malloc'd bytes (its own
 * from then on), or an error: input_missing, input_too_large, input_unreadable. Returns a handle
 * for queue_read_cancel, after which the callback does not come; NULL when memory is short. */
typedef void (*queue_read_cb)(void *context, uint8_t *bytes, size_t length,
                              const struct error *error);
void *queue_read(struct queue *queue, const char *key, uint64_t bytes_max, queue_read_cb callback,
                 void *context);
void queue_read_cancel(struct queue *queue, void *handle);

const struct queue_view *queue_view(struct queue *queue);

/* Drain: no more fetches. closed is called once everything unacknowledged has been acknowledged
 * (running leases are waited for too) and the connections are closed, or after timeout_s. Then
 * queue_destroy may be called, which frees all leases that are left. A queue that was started and
 * not closed is destroyed by the loop's next turns; nothing is called back then. */
void queue_close(struct queue *queue, double timeout_s, void (*closed)(void *context),
                 void *context);
void queue_destroy(struct queue *queue);

#endif
