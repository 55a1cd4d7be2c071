/* lease_impl.h - the private structs and functions of the .c files in queue/lease/.
 *
 * A lease that Redis has not acknowledged is in queue->entries and on one other list: while the
 * daemon runs the job, queue->running; after the daemon has ended the lease, the list
 * lane->waiting, and then lane->sent until Redis has answered.
 *
 * A queue belongs to a group: the shards of a daemon, or the queue alone. */
#pragma once

#include "conf/limits.h"
#include "queue/lease/group.h"
#include "queue/lease/queue.h"
#include "queue/redis/connection.h"
#include "queue/redis/route.h"
#include "queue/redis/script.h"

/* Minimum time between two calls of a kind, so that batches form under load. After a longer pause a
 * call is sent at once. Redis gets at most 500 calls of a kind per second from a daemon. */
#define GATHER_MS 2
#define RETRY_FIRST_MS 100
#define RETRY_LAST_MS 5000
#define RETRY_OOM_MS 1000

enum ack_kind { ACK_DONE, ACK_RETRY, ACK_BACK, ACK_LATER };

/* A lease with the queue's private data; lease->pending points to it. */
struct entry {
    struct lease lease;
    struct list_node in_all; /* queue->entries */
    struct queue *queue;
    enum ack_kind kind;
    bool internal;      /* not known to the daemon: no event is sent for it */
    bool sent_before;   /* an earlier call had no reply: Redis may have run it */
    bool doubtful;      /* and may have broken the connection: it is sent alone (isolate.c) */
    unsigned cuts;      /* connections that broke, or refusals, while it was sent alone */
    bool unique;
    bool ended;         /* START ended the lease in Redis; no call is needed */
    struct ask *ask;    /* the pending START question, or NULL */
    char *result, *id, *reply_to;
    bool reply_denied;  /* an ACL denies the reply_to key */
    uint32_t values_denied; /* bit i: an ACL denies the key of values[i] */
    bool reply_dropped; /* reply_to was denied: post the result even if `results` is none */
    struct queue_value *values;
    size_t value_count, bytes;
};

static inline struct entry *entry_of(struct list_node *node)
{
    return container_of(node, struct entry, lease.node);
}

enum queue_timer {
    TIMER_BACKOFF, /* Redis refused a call: no FETCH, START, DONE, NACK or LOOK until then */
    TIMER_FETCH,  /* GATHER_MS between FETCH calls */
    TIMER_IDLE,   /* the next LOOK */
    TIMER_START,  /* GATHER_MS between START calls, or a retry */
    TIMER_DONE, TIMER_NACK, /* GATHER_MS between calls of a lane, or a retry */
    TIMER_RENEW, TIMER_REAP, TIMER_READ,
    TIMER_CLOSE,  /* the timeout of queue_close */
    TIMER_SHUT,   /* all is done: closes the connections */
    TIMER_COUNT
};

/* Ended leases on the way to one script: DONE or NACK. */
struct lane {
    struct queue *queue;
    enum script script;
    struct list waiting, sent; /* sent: the batch of the one call without a reply */
    size_t sent_bytes;         /* of `sent`, while they count towards group->sent_bytes */
    uint64_t sent_ms;          /* time of the last call, uv_now */
    bool refused;              /* Redis refused the last call: do not fetch meanwhile */
    uint64_t refused_ms;       /* time of the first refusal since the last accepted call, uv_now */
    unsigned probes;           /* outstanding key probes (denial.c); `sent` must not change */
    char denied[ERROR_TEXT_MAX]; /* the error reply that caused the probes */
    bool control_denied;       /* the probe of a key of the queue itself was denied too */
    enum queue_timer timer;
};

/* Is this daemon the watcher, the one daemon that waits for pushes to NS:jobs? The values are those
 * in the replies of FETCH and RENEW. */
enum queue_watch {
    WATCH_NOT,         /* no: it waits for a message in NS:wake */
    WATCH,
    WATCH_ONLY_DAEMON  /* yes, and no other daemon is in the namespace */
};

/* The life of a queue; it only goes on to later states. */
enum queue_life {
    LIFE_NEW,     /* before queue_start */
    LIFE_RUNS,
    LIFE_CLOSING, /* takes no more jobs, and waits for the end of its leases */
    LIFE_LEAVING, /* sends LEAVE, and waits for the reply */
    LIFE_SHUT     /* the handles are closing, or closed */
};

/* What the blocking connection waits for. Redis ends each wait after block_s. */
enum queue_wait {
    WAIT_NOT,
    WAIT_ON_WAKE,  /* BLPOP of NS:wake */
    WAIT_ON_JOBS,  /* BLMOVE of NS:jobs onto itself */
    WAIT_UNBLOCKED /* as WAIT_ON_JOBS, and CLIENT UNBLOCK was sent to end it */
};

/* A bound of the age of the oldest waiting job: all were pushed after since_ms. At the mark,
 * mark_length jobs waited and mark_number was the last job number. Times of uv_now. */
struct queue_age {
    uint64_t since_ms, mark_ms;
    long long mark_number, mark_length;
};

/* REAP: a ZRANGE reads the names in NS:inst, unless it is too early to read them again. Then the
 * script runs. If it has more to do than one call may, both steps follow again. */
enum reap_step { REAP_NOT, REAP_READS_NAMES, REAP_RUNS };

struct reap {
    enum reap_step step;
    uint64_t counter;      /* of the outstanding call; in the step REAP_RUNS */
    uint32_t count;        /* the most leases that it takes */
    bool has_names;        /* the names were read for this call */
    bool more_gone;        /* more daemons are gone than one call may name */
    bool scans_expired;    /* this call and those that follow it also scan for expired leases */
    bool second_scan;      /* the scan takes the leases that had ended by scan_time */
    long long scan_time;   /* Redis's time at the first scan, Unix ms; -1: no scan since the last
                              connect */
    uint64_t scan_loop_ms; /* the same moment, uv_now */
    size_t names;          /* in NS:inst when it was read last */
    uint64_t names_due_ms; /* not read again before this time, uv_now */
};

/* The limits that an image read counts towards: READS_SMALL_MAX, or READS_LARGE_* (limits.h). */
enum room { ROOM_NONE, ROOM_SMALL, ROOM_LARGE, ROOM_KINDS };

/* What the queues of a daemon share. */
struct group {
    uint32_t count;            /* of the queues */
    uint32_t references;       /* queues that are not freed yet, and the owner */
    struct queue *queues[SHARDS_MAX]; /* freed ones are NULL */
    const struct options *options;    /* of the daemon */
    struct options *own;       /* of each queue, if there are several; else NULL */

    bool open;                 /* the daemon takes jobs if it has places; for several queues */
    uint32_t places;           /* how many more leases the daemon can take */
    uint32_t spare;            /* further leases, if the places have no jobs (group_room) */
    uint32_t reserved;         /* of both, for jobs that outstanding FETCH calls may bring */
    uint64_t turns;            /* number of FETCH calls */
    uint64_t counter;          /* of FETCH and REAP calls; INST and a counter form a token. Shared,
                                  because the names of temporary files contain job and counter */
    uint64_t alone_since_ms;   /* when a queue got the right to run jobs alone, uv_now */
    uint64_t alone_rest_ms;    /* no queue claims the right before this time */
    unsigned alone_taken;      /* jobs alone since a queue got the right */
    unsigned rooms[ROOM_KINDS]; /* reads sent, or not yet released by the caller */
    unsigned wakes[ROOM_KINDS]; /* calls of wake (images.c) since the outermost one began */
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

/* How many jobs the calls of a script may name (limit.c). */
struct limit {
    uint32_t most;       /* 0: as many as usual */
    unsigned losses;     /* connections that broke in a row while a reply was awaited */
    uint64_t changed_ms; /* uv_now */
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
    bool lengths_due;          /* call queue_ask_lengths after the reply of RENEW */
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

/* Starts a call of a script with the keys NS:NAME of a list of names. */
#define queue_call(queue, script, ...)                                                             \
    script_call_new(script, (queue)->options->namespace, __VA_ARGS__, NULL)

/* group.c */

/* Creates the group of a queue alone, or NULL: memory is short. */
struct group *group_of_one(void);
/* The queue is freed, or the owner needs the group no more. */
void group_leave(struct group *group, struct queue *queue);
/* Whether the daemon takes jobs for the queue: it has a place, or places are only full because of
 * the other shards. */
bool group_is_open(const struct queue *queue);
/* Number of jobs that the queue may fetch now. */
uint32_t group_room(const struct queue *queue);
/* Jobs of the daemon that must end before one of the queue runs alone. Unacknowledged ends do not
 * count while their shard is away. */
size_t group_busy(const struct queue *queue);
/* Whether the next FETCH of the queue may claim the right to run jobs alone. */
bool group_may_claim(const struct queue *queue);
/* The queue has the right: an older right of a shard that was away meanwhile ends. */
void group_claimed(struct queue *queue);
/* Sends FETCH for the queues that can fetch, the one that fetched least recently first. Each may
 * hold an equal share of the places. */
void group_fetch(struct group *group);
bool group_runs_jobs(const struct group *group);
/* Counts the bytes of a call that a lane is about to send. false: it must wait for other calls, or
 * for a lane that has waited longer. */
bool group_take_bytes(struct lane *lane, size_t bytes);
/* The call has ended. The lanes that wait try again. */
void group_give_bytes(struct lane *lane);
/* Drops ends that a shard has not accepted for lease_s. Called each renew_s. */
void group_drop_ends(struct queue *queue);

/* queue.c */

/* Adds a queue to the group, with the group's options of that index. */
struct queue *queue_add(struct group *group, uint32_t index, uv_loop_t *loop,
                        const struct options *options, const char *instance,
                        const struct queue_events *events, struct error *error);
/* LIFE_CLOSING or later: it takes no more jobs. */
static inline bool queue_is_closing(const struct queue *queue)
{
    return queue->life >= LIFE_CLOSING;
}
/* Connected, and TIMER_BACKOFF does not run. */
bool queue_ready(const struct queue *queue);
void queue_timer_start(struct queue *queue, enum queue_timer timer, uint64_t ms);
/* The same, unless the timer runs already. */
void queue_timer_ensure(struct queue *queue, enum queue_timer timer, uint64_t ms);
/* Handles a reply that is an error or has an unexpected form: logs it once. `waits`: sends nothing
 * more for a while. */
void queue_refused(struct queue *queue, enum script script, const redisReply *reply, bool waits);
/* Whether Redis closes the connection after this reply, because it cannot take the call. */
bool queue_is_cut(const redisReply *reply);
/* A call had no reply: it may be the reason. Until a call of this script is accepted, the pauses
 * before reconnects grow, and calls of it are sent only after Redis has answered another call. */
void queue_lost(struct queue *queue, enum script script);
/* queue_ready, and the connection has answered a call if calls of this script may break it. */
bool queue_may_send(const struct queue *queue, enum script script);
/* Returns true if the reply is an array of at least `least` elements; else calls queue_refused. */
bool queue_accepts(struct queue *queue, enum script script, const redisReply *reply, size_t least,
                   bool waits);
size_t queue_unacknowledged(const struct queue *queue); /* number of leases in the lanes */
struct entry *queue_entry_new(struct queue *queue);
void queue_entry_free(struct entry *entry);
const char *queue_entry_label(const struct entry *entry, char label[LABEL_BYTES]); /* label_job */
void queue_entry_drop_answer(struct entry *entry);
void queue_close_check(struct queue *queue);
/* Sends LEAVE. watch: "pass" after a message of NS:wake, else "none". false: not connected. */
bool queue_leave(struct queue *queue, const char *watch);
void queue_end_batch(struct queue *queue); /* of the daemon's events */
/* The key for results, without the namespace: "results", or "results:stream" with results = stream.
 */
const char *queue_results_key(const struct queue *queue);
/* Reads the lengths of NS:results, or of the stream, and of NS:dead and NS:delayed. */
void queue_ask_lengths(struct queue *queue);

/* fetch.c. A *_pump function sends the next call if one is needed and possible. */
void fetch_pump(struct queue *queue);
/* Waits for a job if the queue is idle. */
void fetch_wait(struct queue *queue);
/* Whether the queue would send FETCH if it had a place. */
bool fetch_is_possible(const struct queue *queue);
/* Sends FETCH for so many jobs, at most `batch`. */
void fetch_send(struct queue *queue, uint32_t places);
/* Whether the queue has waited GATHER_MS since its last FETCH, or FETCH may bring a whole batch
 * into so many places. Else sets the timer. */
bool fetch_is_due(struct queue *queue, uint32_t places);
void fetch_wake(struct queue *queue); /* leaves the idle state: there may be a job now */
/* The idle queue learned of a job. If other shards have all the places, another daemon should take
 * the job. Else, or if none does, this one fetches it when a place is free. */
void fetch_job_came(struct queue *queue);
/* Passes the watch to another daemon if this one is the watcher but cannot fetch now. */
void fetch_check_watch(struct queue *queue);
void fetch_idle_over(struct queue *queue);
/* Creates an entry from number, attempt and text at `index` of a reply. Takes the text out of the
 * reply. Returns NULL if memory is short or the reply has another form. */
struct entry *fetch_entry(struct queue *queue, redisReply *reply, size_t index, uint64_t counter,
                          size_t text_bytes_max);

void fetch_blocking_up(struct queue *queue); /* the blocking connection is new */
/* Returns true if the daemon is idle and could fetch a job. */
bool fetch_may_wait(const struct queue *queue);

/* listen.c */
void listen_pump(struct queue *queue); /* asks for a message if this daemon is the watcher */
void listen_forget(struct queue *queue); /* the main connection is new */

/* start.c */
void start_pump(struct queue *queue);
/* Asks START about the running leases that a cancel can apply to. */
void start_check(struct queue *queue, long long horizon);
/* Returns true if a question was sent: Redis may have ended the lease already. */
bool start_is_sent(const struct entry *entry);
void start_forget(struct entry *entry); /* the lease ends: report no decision */
void start_free_all(struct queue *queue);

/* ack.c */
void ack_pump(struct lane *lane);
/* Queues the end of a lease. `answer` may be NULL. */
void ack_push(struct entry *entry, enum ack_kind kind, const struct queue_answer *answer);
/* A call of the lane that ends the leases in lane->sent; ack_control: that ends none. */
struct script_call *ack_control(struct lane *lane);
/* Drops the ends that are not sent, without a call. Returns their number. */
size_t ack_drop(struct lane *lane);

/* denial.c */
/* Called after Redis refused the lane's call with NOPERM. Probes each key that a job of the batch
 * named. ack_probed is called once, after denied keys have been removed from the batch; `some` is
 * true if there were any. Returns false if there is no such key or no probe could be sent. */
bool denial_probe(struct lane *lane, const char *error);
void ack_probed(struct lane *lane, bool some);
/* The job has failed with this error: notes it for the daemon. false: memory is short. */
bool denial_note(struct entry *entry, const struct error *error);
/* Leaves out a value: its output and the job have failed. false: memory is short. */
bool denial_drop_value(struct entry *entry, size_t index, const struct error *error);

/* isolate.c */
/* The call of the lane had no reply: all its ends wait again, and are doubtful. */
void isolate_lost(struct lane *lane);
/* Redis refused the call with an error that no permission explains. Returns true if ack_probed
 * will be called: whether the only end of the call was the reason is asked first. */
bool isolate_refused(struct lane *lane, const char *error);
/* How long the end must not be sent yet, in ms. A doubtful one waits until Redis has answered
 * another call on this connection: then the connection works, and breaks because of this end. */
uint64_t isolate_wait_ms(const struct entry *entry);
/* Redis did not take this end alone. Returns true if the end has become smaller. */
bool isolate_cut(struct entry *entry);
void isolate_ask_bound(struct queue *queue); /* for the error of a job */
void isolate_taken(const struct entry *entry); /* Redis took this end */

/* limit.c */
/* How many jobs the next call may name: at most `most`. */
uint32_t limit_count(const struct limit *limit, uint32_t most);
/* A call for so many jobs had no reply, on a connection that worked before. Returns true if the
 * next call will be smaller. */
bool limit_lost(struct limit *limit, uint32_t count, uint64_t now_ms);
void limit_accepted(struct limit *limit, uint64_t now_ms);
/* The largest text of a job that the next reply may contain, bytes. */
size_t limit_text_bytes(const struct limit *limit);

/* lease.c */
void lease_renew(struct queue *queue);
void lease_pass_watch(struct queue *queue); /* another daemon shall watch NS:jobs */
void lease_resume(struct queue *queue);
/* Another daemon has the job: reports `lost`, unless the daemon has ended the lease already. */
void lease_lose(struct entry *entry);
void lease_renew_due(struct queue *queue);
/* Whether a job of the queue runs alone. */
bool lease_runs_alone(const struct queue *queue);
void lease_reap(struct queue *queue, bool expired_too);
void lease_reap_later(struct queue *queue);

/* images.c */
void read_pump(struct queue *queue);
/* Starts reads of the queue that wait for room of a kind, until the room is used up. Returns false
 * if it is. */
bool read_wake(struct queue *queue, enum room room);
void read_down(struct queue *queue, const char *reason);
void read_cancel_all(struct queue *queue); /* no callback is called any more */
void read_free_all(struct queue *queue);
