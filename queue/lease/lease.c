#include "queue/lease/lease.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "conf/log.h"
#include "queue/lease/lease_impl.h"

/* ---- RENEW ----------------------------------------------------------------------------------- */

/* Handles a lease that RENEW reported as lost. name: "NUMBER:COUNTER" (lease.number, lease.fetch).
 * Ignores the report if a call of this daemon may have ended the lease. */
static void note_lost(struct queue *queue, const char *name)
{
    unsigned long long number, fetch;
    if (sscanf(name, "%llu:%llu", &number, &fetch) != 2) /* uncovered: refusal */
        return;
    list_each(node, &queue->entries.all) {
        struct entry *entry = container_of(node, struct entry, in_all);
        if (entry->lease.number != number || entry->lease.fetch != fetch)
            continue;
        if (!entry->sent_before && !entry->ended_by_start && !start_is_sent(entry))
            entry_lose(entry);
        return;
    }
}

/* The first elements of the reply of RENEW (PROTOCOL.md). */
struct renew_reply {
    bool alone;        /* this daemon has the right to run jobs alone */
    long long horizon; /* highest job number that a cancel can apply to; -1: there is none */
    long long watch;   /* enum queue_watch; -1: the call did not ask */
};
enum { RENEW_HEAD = 3 }; /* elements before the names of lost leases */

static struct renew_reply read_reply(const redisReply *reply)
{
    return (struct renew_reply){
        .alone = script_reply_integer(reply, 0) != 0,
        .horizon = script_reply_integer(reply, 1),
        .watch = script_reply_integer(reply, 2),
    };
}

static void note_renewal(struct queue *queue, const redisReply *reply)
{
    if (!calls_accept(queue, SCRIPT_ID_RENEW, reply, RENEW_HEAD, queue->idle.now)) {
        /* RENEW is the only write of an idle daemon. The queue ends the idle state, so that its
         * next FETCH shows when Redis accepts writes again. */
        idle_end(queue);
        return;
    }
    struct renew_reply head = read_reply(reply);
    if (!head.alone && !queue_is_fetching(queue))
        alone_expired(queue);
    if (head.watch >= WATCH_NOT && head.watch <= WATCH_ONLY_DAEMON)
        queue->watch = (enum queue_watch)head.watch;
    for (size_t i = RENEW_HEAD; i < reply->elements; i++)
        if (reply->element[i]->type == REDIS_REPLY_STRING)
            note_lost(queue, reply->element[i]->str);
    start_check(queue, head.horizon);
    if (queue->lengths.due)
        lengths_ask(queue);
    queue->lengths.due = false;
}

static void renewed(void *context, redisReply *reply)
{
    struct queue *queue = context;
    queue->leases.renews_out--;
    timer_turn(queue);
    if (reply)
        note_renewal(queue, reply);
}

static void send_renewal(struct queue *queue, struct entry *const *entries, size_t count,
                         const char *watch)
{
    bool paused = queue->group->places.free == 0 && !places_any_running(queue->group);
    bool keeps_right = (queue->alone.has && !paused) || queue_is_fetching(queue);
    struct script_call *call = call_new(queue, SCRIPT_ID_RENEW, "lease", "inst", "alone:owner",
                                        "cancel", "watcher", "wake");
    for (size_t i = 0; i < count; i++)
        script_call_job_key(call, entries[i]->lease.number);
    script_call_text(call, queue->instance);
    script_call_ms(call, queue->options->lease_s);
    if (keeps_right)
        script_call_text(call, "keep");
    else
        script_call_number(call, queue->group->counter);
    script_call_text(call, watch);
    for (size_t i = 0; i < count; i++) {
        script_call_number(call, entries[i]->lease.number);
        script_call_number(call, entries[i]->lease.fetch);
    }
    queue->leases.renews_out += script_call_send(call, queue->redis, renewed, queue);
}

/* Sends RENEW for all leases that are not lost, or without leases for the daemon's name alone. */
static void renew(struct queue *queue)
{
    struct entry *entries[QUEUE_BATCH_MAX];
    size_t count = 0;
    bool sent = false;
    /* If a FETCH is outstanding, its reply decides who is the watcher. */
    const char *watch = queue->watch != WATCH_NOT && !queue_is_fetching(queue) ? "keep" : "none";
    if (!redis_up(queue->redis))
        return;
    list_each(node, &queue->entries.all) {
        entries[count] = container_of(node, struct entry, in_all);
        if (entries[count]->lease.lost || ++count < QUEUE_BATCH_MAX) /* uncovered: moment */
            continue;
        send_renewal(queue, entries, count, watch);
        sent = true;
        count = 0;
    }
    if (count > 0 || !sent)
        send_renewal(queue, entries, count, watch);
    queue->lengths.due = true;
}

void lease_renew_pass(struct queue *queue)
{
    send_renewal(queue, NULL, 0, "pass");
}

void lease_renew_due(struct queue *queue)
{
    timer_start(queue, TIMER_RENEW, (uint64_t)ceil(queue->options->renew_s * 1000));
    /* A queue that closes waits for the replies of RENEW; if they take longer than renew_s, another
     * RENEW would keep it from its end. */
    if (queue_is_closing(queue) && queue->entries.all.length == 0) /* uncovered: moment */
        return;
    if (queue->leases.resumes_due > 0)
        lease_resume(queue);
    renew(queue);
}

/* ---- RESUME ---------------------------------------------------------------------------------- */

static void resumed(void *context, redisReply *reply)
{
    struct queue *queue = context;
    queue->leases.resumes_out--;
    timer_turn(queue);
    if (!reply)
        return;
    if (!calls_accept(queue, SCRIPT_ID_RESUME, reply, 2, false)) {
        if (!queue_is_closing(queue)) /* else the leases expire */
            queue->leases.resumes_due++;
        return;
    }
    struct resume_reply {
        long long given;
        bool more;
    } head = {script_reply_integer(reply, 0), script_reply_integer(reply, 1) == 1};
    if (head.given > 0) {
        log_info("%s%lld jobs were given back: the reply to their FETCH was lost",
                 queue->log_prefix, head.given);
        idle_end(queue);
    }
    if (head.more) {
        queue->leases.resumes_due++;
        lease_resume(queue);
    }
}

void lease_resume_later(struct queue *queue)
{
    if (queue->leases.resumes_due < 1)
        queue->leases.resumes_due = 1;
}

void lease_resume(struct queue *queue)
{
    uint64_t end = queue->group->counter + 1;
    if (queue_is_fetching(queue) && queue->fetch.counter < end)
        end = queue->fetch.counter;
    if (queue->reap.state == REAP_RUNS && queue->reap.counter < end)
        end = queue->reap.counter;
    struct script_call *call = call_new(queue, SCRIPT_ID_RESUME, "lease", "jobs", "alone");
    script_call_text(call, queue->options->namespace);
    script_call_text(call, queue->instance);
    script_call_number(call, queue->options->attempts);
    script_call_number(call, end);
    list_each(node, &queue->entries.all) {
        const struct lease *lease = &container_of(node, struct entry, in_all)->lease;
        /* A lost job is not named: a FETCH without a reply may have leased it to this daemon again,
         * and RESUME must then give it back. */
        if (!lease->lost)
            script_call_format(call, "%llu:%llu", (unsigned long long)lease->number,
                               (unsigned long long)lease->fetch);
    }
    if (!script_call_send(call, queue->redis, resumed, queue))
        return;
    queue->leases.resumes_due--;
    queue->leases.resumes_out++;
}

void lease_up(struct queue *queue)
{
    /* Redis may run a FETCH of the old connection after this RESUME. A second RESUME follows with
     * the next RENEW. */
    queue->leases.resumes_due = 2;
    lease_resume(queue);
    renew(queue);
    /* Random, so that daemons that connected together do not renew together. */
    double part = 0.5 + 0.5 * erand48(queue->random_state);
    timer_start(queue, TIMER_RENEW, (uint64_t)ceil(queue->options->renew_s * part * 1000));
}

/* ---- LEAVE ----------------------------------------------------------------------------------- */

static void left(void *context, redisReply *reply)
{
    struct queue *queue = context;
    (void)reply;
    queue->leases.leaves_out--;
    timer_turn(queue);
}

bool lease_leave(struct queue *queue, const char *watch)
{
    struct script_call *call = call_new(queue, SCRIPT_ID_LEAVE, "inst", "alone:owner");
    script_call_ns_key(call, "stats:%s", queue->instance);
    script_call_ns_key(call, "leases:%s", queue->instance);
    script_call_ns_key(call, "watcher");
    script_call_ns_key(call, "wake");
    script_call_text(call, queue->instance);
    script_call_ms(call, queue->options->lease_s);
    script_call_text(call, watch);
    bool sent = script_call_send(call, queue->redis, left, queue);
    queue->leases.leaves_out += sent;
    return sent;
}
