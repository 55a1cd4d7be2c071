/* fetch.c - fetches jobs, waits for new jobs while idle, and runs last attempts alone.
 *
 * The daemon learns of new jobs in three ways:
 * - The last FETCH left jobs in NS:jobs: fetch again when a place is free.
 * - The blocking connection wakes the idle daemon. One idle daemon, the watcher, waits there in a
 *   BLMOVE of NS:jobs onto itself; all others wait in a BLPOP of NS:wake. The watcher also gets a
 *   message after a push to a list with a priority (listen.c).
 * - The idle timer sends LOOK: for delayed jobs that are due, for jobs in NS:alone, and if the
 *   blocking connection is down or refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conf/log.h"
#include "queue/lease/lease_impl.h"

/* After running this many jobs alone in a row, this daemon runs other jobs for the same time. */
#define ALONE_RUN_MAX 8

enum {
    REPLY_LENGTH,
    REPLY_DUE_MS,
    REPLY_DROPPED,
    REPLY_ALONE,
    REPLY_HORIZON,
    REPLY_PAUSED,
    REPLY_WATCH,
    REPLY_LENGTHS,
    REPLY_LISTS,
    REPLY_NUMBER,
    REPLY_HEAD
};

enum { LOOK_WORTH, LOOK_LENGTH, LOOK_DUE_MS, LOOK_PAUSED, LOOK_LENGTHS, LOOK_HEAD };

/* Random delay, so that two daemons do not fetch the same due job at the same moment. */
#define DUE_JITTER_MS 20

/* Takes a string out of a reply; malloc'd and NUL-terminated by hiredis. */
static char *take_string(redisReply *reply, size_t *bytes)
{
    char *text = reply->str;
    *bytes = (size_t)reply->len;
    reply->str = NULL;
    return text;
}

struct entry *fetch_entry(struct queue *queue, redisReply *reply, size_t index, uint64_t counter,
                          size_t text_bytes_max)
{
    uint64_t number;
    redisReply *text = index + 2 < reply->elements ? reply->element[index + 2] : NULL;
    if (!text || !script_reply_number(reply, index, &number) ||
        reply->element[index + 1]->type != REDIS_REPLY_INTEGER) /* uncovered: memory */
        return NULL;
    struct entry *entry = queue_entry_new(queue);
    if (!entry)
        return NULL;
    entry->lease.number = number;
    entry->lease.attempt = (uint32_t)reply->element[index + 1]->integer;
    entry->lease.fetch = counter;
    entry->lease.priority = PRIORITY_DEFAULT;
    if (text->type == REDIS_REPLY_STRING) {
        entry->lease.raw = take_string(text, &entry->lease.raw_bytes);
    } else if (script_reply_is_array(text, 2) && text->element[1]->type == REDIS_REPLY_STRING) {
        entry->lease.raw_bytes = (size_t)script_reply_integer(text, 0);
        entry->lease.raw_bytes_max = text_bytes_max;
        entry->lease.head = take_string(text->element[1], &entry->lease.head_bytes);
    }
    return entry;
}

/* ---- waiting while idle ------------------------------------------------------------------- */

static void unblocked(void *context, redisReply *reply);

bool fetch_may_wait(const struct queue *queue)
{
    return queue->idle && !queue_is_closing(queue) && !queue->view.paused && group_is_open(queue);
}

/* A daemon that learned of a job by a message (listen.c) and then passed the watch on still waits
 * on NS:jobs. It must wait on NS:wake, or nobody reads the messages there. If Redis refuses, the
 * wait ends after block_s. */
static void leave_list(struct queue *queue)
{
    if (queue->wait == WAIT_ON_JOBS && queue->watch == WATCH_NOT && queue->blocking_id != 0 &&
        redis_ask(queue->redis, 0, NULL, NULL, "CLIENT UNBLOCK %lld", queue->blocking_id))
        queue->wait = WAIT_UNBLOCKED;
}

static void identified(void *context, redisReply *reply)
{
    struct queue *queue = context;
    queue->blocking_id = reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    if (reply)
        redis_reset_backoff(queue->blocking);
}

void fetch_blocking_up(struct queue *queue)
{
    redis_ask(queue->blocking, 0, identified, queue, "CLIENT ID");
    fetch_pump(queue);
}

static void block_pump(struct queue *queue)
{
    const char *ns = queue->options->namespace;
    listen_pump(queue);
    leave_list(queue);
    if (!fetch_may_wait(queue) || queue->wait != WAIT_NOT || queue->wait_refused ||
        !redis_up(queue->blocking))
        return;
    double block_s = fmax(queue->options->block_s, 0.01); /* 0 would wait for ever */
    enum queue_wait wait = queue->watch == WATCH_NOT ? WAIT_ON_WAKE : WAIT_ON_JOBS;
    bool sent =
        wait == WAIT_ON_WAKE
            ? redis_ask(queue->blocking, block_s + 3, unblocked, queue, "BLPOP %s:wake %.3f", ns,
                        block_s)
            : redis_ask(queue->blocking, block_s + 3, unblocked, queue,
                        "BLMOVE %s:jobs %s:jobs RIGHT RIGHT %.3f", ns, ns, block_s);
    queue->wait = sent ? wait : WAIT_NOT;
}

void fetch_job_came(struct queue *queue)
{
    if (queue->group->count > 1 && group_room(queue) == 0 && queue->watch != WATCH_ONLY_DAEMON)
        lease_pass_watch(queue);
    fetch_wake(queue);
}

/* Handles a message from NS:wake. If this daemon can no longer fetch, it passes the watch on: the
 * new watcher finds the remaining jobs. */
static void take_wake_message(struct queue *queue, const redisReply *message)
{
    if (!fetch_may_wait(queue) || !queue_ready(queue))
        lease_pass_watch(queue);
    else if (message->type == REDIS_REPLY_STRING && strcmp(message->str, "watch") == 0)
        queue->watch = WATCH;
    else
        fetch_job_came(queue);
}

static void unblocked(void *context, redisReply *reply)
{
    struct queue *queue = context;
    queue->wait = WAIT_NOT;
    if (queue->life == LIFE_SHUT || !reply)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        if (redis_refusal(reply->str) == REDIS_REFUSAL_RECONNECT)
            redis_drop(queue->blocking, reply->str);
        else
            queue->wait_refused = true; /* until the next idle timer */
    } else if (reply->type != REDIS_REPLY_NIL) {
        redis_mark_healthy(queue->blocking);
        if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
            take_wake_message(queue, reply->element[1]);
        else
            fetch_job_came(queue);
    }
    block_pump(queue);
}

/* A queue that has left the idle state waits for no push; while other shards have all places, it
 * does not fetch either. */
static bool is_watch_unused(const struct queue *queue)
{
    return queue_is_closing(queue) || !group_is_open(queue) ||
           (queue->group->count > 1 && !queue->idle && group_room(queue) == 0);
}

void fetch_check_watch(struct queue *queue)
{
    if (queue->watch == WATCH && !queue->fetch_out && is_watch_unused(queue))
        lease_pass_watch(queue);
}

void fetch_wake(struct queue *queue)
{
    queue->idle = false;
    fetch_pump(queue);
    fetch_check_watch(queue);
}

/* Schedules the next LOOK: when the next delayed job is due, at the latest after block_s. */
static void go_idle(struct queue *queue, long long due_ms)
{
    double random = erand48(queue->random_state);
    double ms = fmax(queue->options->block_s, 0.01) * 1000 * (0.75 + 0.25 * random);
    double due = (double)due_ms + 1 + (queue->watch != WATCH_NOT ? 0 : DUE_JITTER_MS * random);
    if (due_ms >= 0 && due < ms)
        ms = due;
    queue->idle = true;
    queue_timer_start(queue, TIMER_IDLE, (uint64_t)ms);
}

static void note_paused(struct queue *queue, bool paused)
{
    if (paused != queue->view.paused)
        log_info("%s:paused is %s: fetching is %s", queue->options->namespace,
                 paused ? "set" : "gone", paused ? "paused for all daemons" : "resumed");
    queue->view.paused = paused;
}

/* Notes the lengths of the lists with a priority. `lengths` is empty if there are none. */
static void note_lengths(struct queue *queue, const redisReply *lengths)
{
    const char *ns = queue->options->namespace;
    for (unsigned i = 0; i < JOB_PRIORITIES; i++) {
        bool known = lengths->type == REDIS_REPLY_ARRAY && lengths->elements == JOB_PRIORITIES;
        long long length = known ? script_reply_integer(lengths, i) : 0;
        bool refused = length < 0, was = queue->lists_refused >> i & 1;
        if (refused && !was)
            log_warning("%s:jobs:%u is no list, or an ACL denies it: it is skipped, and jobs that "
                        "return to it go to %s:jobs", ns, i, ns);
        else if (was && !refused)
            log_info("%s:jobs:%u can be used again", ns, i);
        queue->lists_refused ^= (unsigned)(refused != was) << i;
        queue->view.lengths[i] = refused ? 0 : (uint64_t)length;
    }
}

static void looked(void *context, redisReply *reply)
{
    struct queue *queue = context;
    queue->looking = false;
    if (!queue->idle || queue_is_closing(queue))
        return;
    if (!reply) {
        fetch_wake(queue);
        return;
    }
    if (!queue_accepts(queue, SCRIPT_ID_LOOK, reply, LOOK_HEAD, true)) {
        queue->idle = false;
        return;
    }
    queue->view.length = (uint64_t)script_reply_integer(reply, LOOK_LENGTH);
    if (queue->view.length == 0)
        queue->age = (struct queue_age){.since_ms = queue->look_ms, .mark_ms = queue->look_ms};
    note_lengths(queue, reply->element[LOOK_LENGTHS]);
    note_paused(queue, script_reply_integer(reply, LOOK_PAUSED) == 1);
    if (script_reply_integer(reply, LOOK_WORTH) == 1) {
        fetch_wake(queue);
        return;
    }
    /* The watcher alone wakes up for due jobs; other daemons need not. */
    go_idle(queue, queue->watch != WATCH_NOT ? script_reply_integer(reply, LOOK_DUE_MS) : -1);
    fetch_pump(queue);
}

void fetch_idle_over(struct queue *queue)
{
    queue->wait_refused = false;
    if (queue->idle && group_is_open(queue) && queue_ready(queue) && !queue->looking) {
        struct script_call *call = queue_call(queue, SCRIPT_ID_LOOK, "jobs", "delayed", "alone",
                                              "alone:owner", "watcher", "paused", "woken");
        queue->look_ms = uv_now(queue->loop);
        queue->looking = script_call_send(call, queue->redis, looked, queue);
        if (queue->looking)
            return;
    }
    fetch_wake(queue);
}

/* ---- FETCH -------------------------------------------------------------------------------- */

static void hand_out(struct queue *queue, struct entry *entry)
{
    struct group *group = queue->group;
    if (queue->fetch_places > 0) {
        queue->fetch_places--;
        group->reserved--;
    }
    uint32_t *places = group->places > 0 ? &group->places : &group->spare;
    if (*places == 0 || queue_is_closing(queue)) {
        entry->internal = true;
        ack_push(entry, ACK_BACK, NULL);
        return;
    }
    --*places;
    if (entry->lease.attempt > 1)
        queue->view.redelivered++;
    list_push(&queue->running, &entry->lease.node);
    queue->events.leased(queue->events.context, &entry->lease);
}

static void note_alone(struct queue *queue, bool alone, size_t taken)
{
    struct group *group = queue->group;
    uint64_t now = uv_now(queue->loop);
    if (alone && !queue->alone) {
        group->alone_since_ms = now;
        group->alone_taken = 0;
        group_claimed(queue);
        log_info("%sjobs on their last attempt are waiting: they run one at a time, without others",
                 queue->mark);
    }
    if (!alone && queue->alone)
        group->alone_rest_ms = now + (group->alone_taken >= ALONE_RUN_MAX
                                          ? now - group->alone_since_ms : 0);
    queue->alone = alone;
    group->alone_taken += (unsigned)(alone ? taken : 0);
}

/* Bounds the age of the oldest waiting job. Jobs are taken in the order of their push, so those
 * that waited at the mark are gone when as many have been taken for the first time since: all
 * others were pushed after the mark. number: the last job number, or -1. */
static void note_age(struct queue *queue, long long number)
{
    struct queue_age *age = &queue->age;
    if (number < 0)
        return;
    bool passed = number - age->mark_number >= age->mark_length;
    if (queue->view.length == 0)
        age->since_ms = queue->fetch_ms;
    else if (number >= age->mark_number && !passed)
        return;
    else if (passed)
        age->since_ms = age->mark_ms; /* else somebody has lowered :seq */
    age->mark_ms = queue->fetch_ms;
    age->mark_number = number;
    age->mark_length = (long long)queue->view.length;
}

static void note_dropped(struct queue *queue, long long dropped)
{
    if (dropped <= 0)
        return;
    if (queue->view.dropped == 0)
        log_warning("dropped %lld entries of %s:jobs: the jobs that they name do not exist",
                    dropped, queue->options->namespace);
    queue->view.dropped += (uint64_t)dropped;
}

/* The priority of the lease with this index. */
static uint32_t priority_of(const redisReply *lists, size_t index)
{
    char list = lists->type == REDIS_REPLY_STRING && index < lists->len ? lists->str[index] : '-';
    return list >= '0' && list <= '9' ? (uint32_t)(list - '0') : PRIORITY_DEFAULT;
}

static void take_leases(struct queue *queue, redisReply *reply, uint64_t counter)
{
    queue->delivering = true;
    for (size_t i = REPLY_HEAD; i + 2 < reply->elements; i += 3) {
        struct entry *entry = fetch_entry(queue, reply, i, counter, queue->fetch_text_bytes);
        if (!entry) { /* out of memory; RESUME gives the lease back */
            if (queue->resumes_due < 1)
                queue->resumes_due = 1;
            continue;
        }
        entry->lease.priority = priority_of(reply->element[REPLY_LISTS], (i - REPLY_HEAD) / 3);
        entry->lease.alone = queue->alone;
        entry->lease.marked = (long long)entry->lease.number <= queue->horizon;
        hand_out(queue, entry);
    }
    queue_end_batch(queue);
    queue->delivering = false;
}

static void release_places(struct queue *queue)
{
    queue->group->reserved -= queue->fetch_places;
    queue->fetch_places = 0;
}

static void fetched(void *context, redisReply *reply)
{
    struct queue *queue = context;
    uint64_t counter = queue->fetch_out;
    queue->fetch_out = 0;
    queue->fetch_claims = false;
    if (!reply) {
        if (queue->proved &&
            limit_lost(&queue->fetch_limit, queue->fetch_places, uv_now(queue->loop)))
            redis_reset_backoff(queue->redis);
        queue_lost(queue, SCRIPT_ID_FETCH);
        release_places(queue);
        /* Other shards may use the places. This queue sends again only if it is still connected:
         * then memory was short. */
        fetch_pump(queue);
        queue_close_check(queue);
        return;
    }
    if (!queue_accepts(queue, SCRIPT_ID_FETCH, reply, REPLY_HEAD, true)) {
        release_places(queue);
        queue_close_check(queue);
        fetch_pump(queue);
        return;
    }
    limit_accepted(&queue->fetch_limit, uv_now(queue->loop));
    size_t taken = (reply->elements - REPLY_HEAD) / 3;
    queue->view.length = (uint64_t)script_reply_integer(reply, REPLY_LENGTH);
    note_lengths(queue, reply->element[REPLY_LENGTHS]);
    note_age(queue, script_reply_integer(reply, REPLY_NUMBER));
    note_dropped(queue, script_reply_integer(reply, REPLY_DROPPED));
    note_alone(queue, script_reply_integer(reply, REPLY_ALONE) == 1, taken);
    note_paused(queue, script_reply_integer(reply, REPLY_PAUSED) == 1);
    long long horizon = script_reply_integer(reply, REPLY_HORIZON);
    if (horizon != queue->horizon)
        start_check(queue, horizon);
    queue->watch = (enum queue_watch)script_reply_integer(reply, REPLY_WATCH);
    if ((queue->view.length == 0 && !queue->alone) || queue->view.paused)
        go_idle(queue, script_reply_integer(reply, REPLY_DUE_MS));
    take_leases(queue, reply, counter);
    release_places(queue);
    queue_close_check(queue);
    fetch_pump(queue);
}

/* With several shards, the first FETCH only claims the right to run alone, so that no job of
 * another shard comes meanwhile. The holder's next FETCH takes the job. */
static size_t jobs_before_alone(const struct queue *queue)
{
    size_t jobs = group_busy(queue);
    return jobs == 0 && queue->group->count > 1 && !queue->alone ? 1 : jobs;
}

static void send_fetch(struct queue *queue, uint32_t places)
{
    const struct options *options = queue->options;
    struct group *group = queue->group;
    bool may_run_alone = queue->alone ? group->alone_taken < ALONE_RUN_MAX
                                      : uv_now(queue->loop) >= group->alone_rest_ms &&
                                            group_may_claim(queue);
    queue->fetch_text_bytes = limit_text_bytes(&queue->fetch_limit);
    struct script_call *call = queue_call(queue, SCRIPT_ID_FETCH, "jobs", "delayed", "alone",
                                          "alone:owner", "lease", "inst", "seq", "cancel", "paused",
                                          "watcher", "wake", "woken");
    script_call_text(call, options->namespace);
    script_call_text(call, queue->instance);
    script_call_number(call, ++group->counter);
    script_call_number(call, places);
    script_call_ms(call, options->lease_s);
    script_call_number(call, options->attempts);
    script_call_number(call, queue->fetch_text_bytes);
    script_call_number(call, may_run_alone);
    script_call_number(call, jobs_before_alone(queue));
    script_call_text(call, queue->watch != WATCH_NOT ? "watch"
                           : queue->wait == WAIT_ON_WAKE ? "wait" : "none");
    queue->fetch_out = group->counter;
    queue->fetch_ms = uv_now(queue->loop);
    queue->fetch_places = places;
    queue->fetch_claims = may_run_alone;
    queue->turn = ++group->turns;
    if (may_run_alone)
        queue->claim_turn = queue->turn;
    group->reserved += places;
    if (script_call_send(call, queue->redis, fetched, queue))
        return;
    queue->fetch_out = 0;
    queue->fetch_claims = false;
    release_places(queue);
}

bool fetch_is_possible(const struct queue *queue)
{
    return queue_may_send(queue, SCRIPT_ID_FETCH) && !queue->fetch_out && !queue->delivering &&
           !queue_is_closing(queue) && group_is_open(queue) && !queue->done.refused &&
           !queue->nack.refused &&
           /* a job that runs alone starts after all other jobs have ended */
           !(queue->alone && group_busy(queue) > 0);
}

bool fetch_is_due(struct queue *queue, uint32_t places)
{
    uint64_t since = uv_now(queue->loop) - queue->fetch_ms;
    if (places >= queue->options->batch || since >= GATHER_MS)
        return true;
    queue_timer_start(queue, TIMER_FETCH, GATHER_MS - since);
    return false;
}

void fetch_send(struct queue *queue, uint32_t places)
{
    uint32_t batch = limit_count(&queue->fetch_limit, (uint32_t)queue->options->batch);
    send_fetch(queue, places < batch ? places : batch);
}

void fetch_wait(struct queue *queue)
{
    if (queue->idle && fetch_is_possible(queue))
        block_pump(queue);
}

/* Called after a call has ended or a right was released: also lets the other shards fetch. */
void fetch_pump(struct queue *queue)
{
    fetch_wait(queue);
    group_fetch(queue->group);
}
