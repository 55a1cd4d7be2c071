/*
 * lease_impl.h - what queue.c, fetch.c, start.c, ack.c, lease.c, lengths.c and images.c share, and
 * nobody else.
 *
 * A lease is on exactly one list: running (the daemon's), or waiting or sent of one of the two
 * lanes (settled; waiting to be told to Redis, or told and not yet answered).
 */
#ifndef GPUIMGD_QUEUE_LEASE_LEASE_IMPL_H
#define GPUIMGD_QUEUE_LEASE_LEASE_IMPL_H

#include "conf/limits.h"
#include "queue/lease/queue.h"
#include "queue/redis/connection.h"
#include "queue/redis/route.h"
#include "queue/redis/script.h"

/* Under load a call waits this long for company, so that batches form; a call after a pause of
 * this length goes at once. Redis then has at most 500 calls of a kind a second per daemon. */
#define GATHER_MS 2
#define RETRY_FIRST_MS 100
#define RETRY_LAST_MS 5000
#define RETRY_OOM_MS 1000

enum ack_kind { ACK_DONE, ACK_RETRY, ACK_BACK };

/* A lease and all that the queue keeps with it; lease->pending points here. */
struct entry {
    struct lease lease;
    struct queue *queue;
    enum ack_kind kind;
    bool internal;      /* the daemon never saw it, and hears nothing of it */
    bool sent_before;   /* a call with it had no answer: it may have been carried out */
    bool unique;
    bool ended;         /* START ended the lease: there is nothing left to tell Redis */
    struct ask *ask;    /* the question that is out about it, or NULL */
    char *result, *id, *reply_to;
    bool reply_denied;  /* an ACL denies the key; so for each value in values_denied, by bits */
    uint32_t values_denied;
    bool reply_dropped; /* it was denied: the result goes to NS:results, whatever `results` says */
    struct queue_value *values;
    size_t value_count, bytes;
};

/* Settled leases on their way to one script. */
struct lane {
    struct queue *queue;
    enum script script;
    struct list waiting, sent; /* sent: at most one call is out */
    uint64_t sent_ms;          /* when the last call went */
    bool refused;              /* Redis refused the last call: no fetching meanwhile */
    unsigned probes;           /* of keys, without an answer: `sent` stays as it is until then */
    char denied[ERROR_TEXT_MAX]; /* why the call was refused that they are for */
    bool control_denied;       /* the daemon's own keys are denied as well */
    uv_timer_t *timer;
};

enum queue_timer {
    TIMER_WAIT,   /* Redis refused: nothing is sent until then */
    TIMER_FETCH,  /* gathering places */
    TIMER_IDLE,   /* the next look at an empty queue */
    TIMER_START,  /* gathering questions */
    TIMER_DONE, TIMER_NACK, /* gathering acks */
    TIMER_RENEW, TIMER_REAP, TIMER_READ, TIMER_CLOSE,
    TIMER_COUNT
};

/* The values are FETCH's and RENEW's. */
enum queue_watch {
    WATCH_NOT,     /* another daemon waits on :jobs; this one waits for a word in :wake */
    WATCH,
    WATCH_ONLY_DAEMON   /* there is no other daemon in the namespace */
};

struct queue {
    uv_loop_t *loop;
    struct queue_config config; /* strings are copies */
    struct redis_address address;
    struct queue_events events;
    struct route *route;
    struct redis *redis, *blocking; /* NULL, as the route, before the start and after the close */
    uv_timer_t timers[TIMER_COUNT];
    unsigned short random_state[3];     /* for erand48: each daemon has its own sequence */
    size_t open_handles;
    bool started, closing, leaving, shut, destroyed;
    void (*closed)(void *context);
    void *closed_context;

    struct list running;
    struct lane done, nack;
    struct list asks, asked;   /* questions to START that wait; those of the one call that is out */
    struct list reads;
    unsigned small_reads, large_reads; /* that are out, or not yet released */
    size_t large_bytes;                /* of the large ones that are known */

    uint32_t places;
    uint64_t counter;          /* of FETCH and REAP calls: with INST, the token of their leases */
    uint64_t fetch_out, reap_out; /* counters of the calls without an answer yet, or 0 */
    uint64_t fetch_ms;         /* when the last FETCH went */
    bool delivering;           /* leases of one reply are being handed out: no FETCH meanwhile */
    bool idle;                 /* the last FETCH left :jobs empty, or found all paused */
    enum queue_watch watch;    /* is this daemon to wait on :jobs while it is idle? */
    bool looking;              /* a LOOK is out */
    bool waits_on_wake;       /* the peek is a BLPOP of :wake, and not a BLMOVE of :jobs */
    long long horizon;         /* the highest number that a cancel may be meant for; -1: none */
    bool blocked, blocking_refused;
    bool lengths_due;          /* lengths_ask is to follow the RENEW that is out */
    bool results_fill;         /* the log was told that :results is nearly full */
    bool publishing;           /* the last queue_publish has no answer yet */
    bool alone;                /* this daemon has the right to run jobs alone */
    uint64_t alone_since_ms, alone_rest_ms;
    unsigned alone_taken;

    int resumes_due;
    bool reap_listing;         /* the list of daemons is being read */
    bool reap_more;            /* REAP could not name all daemons that are gone */
    bool reap_expired;         /* the REAP that is out, or the next of its batches, looks for
                                  expired leases too */
    bool reap_second_scan;          /* and takes those that had ended by scan_time */
    long long scan_time;       /* when it looked for the first time, by Redis's clock, Unix ms; -1:
                                  not since the connection came up */
    uint64_t scan_loop_ms;          /* the same by uv_now */
    bool server_checked;              /* version and eviction policy were looked at */

    bool waiting;
    uint64_t wait_ms;
    char logged_refusal[SCRIPT_ID_COUNT][ERROR_TEXT_MAX]; /* the refusal that the log was told */
    char reason[ERROR_TEXT_MAX + 32]; /* an error of Redis, and what it is */
    struct queue_view view;
};

/* queue.c */
bool queue_ready(const struct queue *queue); /* connected, not waiting out a refusal */
void queue_timer_start(struct queue *queue, enum queue_timer timer, uint64_t ms);
/* A reply that is no success (an error, or of an unexpected form): says so once. `waits`: nothing
 * more is sent before a while has passed. */
void queue_refused(struct queue *queue, enum script script, const redisReply *reply, bool waits);
void queue_accepted(struct queue *queue, enum script script);
size_t queue_unacknowledged(const struct queue *queue); /* settled leases in the lanes */
struct entry *queue_entry_new(struct queue *queue);
void queue_entry_free(struct entry *entry);
void queue_entry_drop_answer(struct entry *entry);
/* Calls visit for each lease that is not yet acknowledged. It must not change the lists. */
void queue_each_entry(struct queue *queue, void (*visit)(void *context, struct entry *entry),
                      void *context);
void queue_close_check(struct queue *queue);

/* fetch.c */
void fetch_pump(struct queue *queue);
void fetch_wake(struct queue *queue); /* there may be something now */
/* Lets another daemon watch :jobs where this one does not fetch any more. */
void fetch_check_watch(struct queue *queue);
void fetch_timer_cb(uv_timer_t *timer);
void fetch_idle_cb(uv_timer_t *timer);
/* Fills an entry from number, attempt and text at index of a reply; takes the text. */
struct entry *fetch_entry(struct queue *queue, redisReply *reply, size_t index, uint64_t counter);

/* start.c */
void start_pump(struct queue *queue);
void start_timer_cb(uv_timer_t *timer);
/* Asks about the running leases that a cancel may be meant for. */
void start_check(struct queue *queue, long long horizon);
/* The question is out, and may have ended the lease already. */
bool start_is_sent(const struct entry *entry);
void start_forget(struct entry *entry); /* its lease ends: no ruling comes any more */
void start_free_all(struct queue *queue);

/* lengths.c */
void lengths_ask(struct queue *queue);

/* ack.c */
void ack_pump(struct lane *lane);
void ack_timer_cb(uv_timer_t *timer);
/* answer: NULL where the lease ends without one. */
void ack_push(struct entry *entry, enum ack_kind kind, const struct queue_answer *answer);

/* denial.c */
/* Redis refused the lane's call for want of a permission. Asks for each user's key of the batch
 * whether it is denied; `done` comes once with whether some were, which the batch is then without.
 * false: there is no such key, or nothing could be asked. */
bool denial_probe(struct lane *lane, const char *error, void (*done)(struct lane *lane, bool some));

/* lease.c */
void lease_renew(struct queue *queue);
void lease_pass_watch(struct queue *queue); /* another daemon is to watch :jobs */
void lease_resume(struct queue *queue);
/* Another daemon has it: tells ours, unless it has ended it already. */
void lease_lose(struct entry *entry);
void lease_renew_cb(uv_timer_t *timer);
void lease_reap(struct queue *queue, bool expired_too);
void lease_reap_cb(uv_timer_t *timer);
void lease_reap_later(struct queue *queue);

/* images.c */
void read_pump(struct queue *queue);
void read_down(struct queue *queue, const char *reason);
void read_timer_cb(uv_timer_t *timer);
void read_cancel_all(struct queue *queue); /* no callback comes any more */
void read_free_all(struct queue *queue);

#endif
