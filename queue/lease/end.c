#include "queue/lease/end.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "conf/log.h"
#include "queue/job/job.h"
#include "queue/lease/lease_impl.h"

/* Bytes of results and outputs per call: Redis serves no other client while it stores them. */
#define BATCH_BYTES (16 * MIB)

/* The replies of DONE and NACK for one lease. */
enum {
    ANSWER_GONE = -1, /* the job does not exist */
    ANSWER_STALE = 0, /* another daemon has the job */
    ANSWER_OK = 1,
    ANSWER_DEAD = 2 /* NACK: no attempt was left */
};

/* Reports the end of a lease to the daemon, and frees the entry. It must be in no outbox. */
static void finish(struct entry *entry, long long answer)
{
    struct queue *queue = entry->queue;
    bool nack = entry->kind != END_DONE;
    bool dead = answer == ANSWER_DEAD;
    bool stale = !entry->ended_by_start && (answer == ANSWER_STALE || answer == ANSWER_GONE);
    if (stale && entry->sent_before && !entry->lease.lost && (nack || answer == ANSWER_GONE)) {
        stale = false; /* an earlier call, whose reply was lost, ended the lease */
        dead = entry->kind == END_RETRY && answer == ANSWER_GONE && /* uncovered: moment */
               queue_last_attempt(&entry->lease);
    }
    queue->view.stale += stale;
    queue->view.dead += dead;
    list_remove(&queue->entries.all, &entry->in_all);
    if (!entry->internal)
        queue->events.settled(queue->events.context, &entry->lease, stale, dead);
    entry_free(entry);
}

/* Returns the first end that needs no call, or NULL. */
static struct list_node *first_lost(const struct outbox *outbox)
{
    list_each (node, &outbox->waiting)
        if (entry_of(node)->lease.lost || entry_of(node)->ended_by_start)
            return node;
    return NULL;
}

/* Finishes the leases that another daemon has or that START ended: they need no call. */
static void finish_lost(struct outbox *outbox)
{
    struct list_node *lost = first_lost(outbox);
    bool some = lost != NULL;
    for (; lost; lost = first_lost(outbox)) {
        list_remove(&outbox->waiting, lost);
        finish(entry_of(lost), ANSWER_STALE);
    }
    if (some)
        entries_end_batch(outbox->queue);
    if (list_empty(&outbox->waiting) && list_empty(&outbox->sent))
        outbox->refused = false; /* the refused leases have been dropped */
}

static void note_trimmed(struct queue *queue, long long trimmed)
{
    if (trimmed <= 0)
        return;
    if (queue->view.trimmed == 0)
        log_warning("%s:%s, :dead or a reply list is full: its oldest entries are deleted",
                    queue->options->namespace, lengths_results_key(queue));
    queue->view.trimmed += (uint64_t)trimmed;
}

static void ends_answered(void *context, redisReply *reply)
{
    struct outbox *outbox = context;
    struct queue *queue = outbox->queue;
    struct list_node *node;
    timer_turn(queue);
    if (!reply || calls_is_cut(reply)) {
        outbox_give_bytes(outbox);
        isolate_lost(outbox);
        calls_lost(queue, outbox->script);
        if (reply)
            calls_refused(queue, outbox->script, reply, true);
        if (calls_ready(queue)) /* still connected: memory was short to send the command again */
            timer_start(queue, outbox->timer, RETRY_FIRST_MS); /* uncovered: moment */
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR &&
        ((redis_error_is(reply->str, "NOPERM") && denial_probe(outbox, reply->str)) ||
         isolate_refused(outbox, reply->str)))
        return;
    if (!calls_accept(queue, outbox->script, reply, 1 + outbox->sent.length, true)) {
        outbox_put_back(outbox, reply->type != REDIS_REPLY_ERROR);
        outbox_refuse(outbox);
        return;
    }
    outbox->refused = false;
    outbox_give_bytes(outbox);
    note_trimmed(queue, script_reply_integer(reply, 0));
    bool wakes = outbox == &queue->nack;
    for (size_t i = 1; (node = list_pop(&outbox->sent)) != NULL; i++) {
        wakes |= entry_of(node)->unique;
        isolate_taken(entry_of(node));
        finish(entry_of(node), script_reply_integer(reply, i));
    }
    entries_end_batch(queue);
    end_pump(outbox);
    if (wakes)
        idle_end(queue); /* a job was delayed or put back, or followers were woken */
}

/* Moves ends from `waiting` to `sent` and returns their bytes. A doubtful end is a batch of its own
 * (isolate.h). */
static size_t take_batch(struct outbox *outbox)
{
    size_t bytes = 0;
    bool doubtful = false;
    while (!list_empty(&outbox->waiting) && outbox->sent.length < outbox->queue->options->batch) {
        struct entry *entry = entry_of(list_first(&outbox->waiting));
        if (!list_empty(&outbox->sent) &&
            (doubtful || entry->doubtful || bytes + entry->bytes > BATCH_BYTES))
            break;
        bytes += entry->bytes;
        doubtful = entry->doubtful;
        list_push(&outbox->sent, list_pop(&outbox->waiting));
    }
    if (doubtful)
        isolate_ask_bound(outbox->queue);
    return bytes;
}

/* Rotates the waiting ends until one that may be sent now is the first. Returns false if there is
 * none. */
static bool find_ready(struct outbox *outbox)
{
    uint64_t wait_ms = 0;
    for (size_t i = outbox->waiting.length; i > 0; i--) {
        wait_ms = isolate_wait_ms(entry_of(list_first(&outbox->waiting)));
        if (wait_ms == 0)
            return true;
        list_push(&outbox->waiting, list_pop(&outbox->waiting));
    }
    if (wait_ms > 0 && outbox->queue->calls.proved) /* else calls_accept starts the timer */
        timer_ensure(outbox->queue, outbox->timer, wait_ms);
    return false;
}

void end_pump(struct outbox *outbox)
{
    struct queue *queue = outbox->queue;
    finish_lost(outbox);
    if (!calls_ready(queue) || outbox->sent.length > 0 || !find_ready(outbox))
        return;
    uint64_t since = uv_now(queue->loop) - outbox->sent_ms;
    if (outbox->waiting.length < queue->options->batch && since < GATHER_MS &&
        !queue_is_closing(queue)) {
        timer_start(queue, outbox->timer, GATHER_MS - since);
        return;
    }
    if (!outbox_take_bytes(outbox, take_batch(outbox))) {
        outbox_put_back(outbox, false);
        /* Usually outbox_give_bytes restarts the timer earlier. It does not if the shard of the
         * outbox that goes first is away. */
        timer_start(queue, outbox->timer, RETRY_FIRST_MS);
        return;
    }
    outbox->sent_ms = uv_now(queue->loop);
    if (!script_call_send(outbox_call(outbox), queue->redis, ends_answered, outbox)) {
        outbox_put_back(outbox, false);
        timer_start(queue, outbox->timer, RETRY_FIRST_MS);
    }
}

/* Copies the array and the keys. Takes ownership of the values even if it returns false. */
static bool take_values(struct entry *entry, const struct queue_value *values, size_t count)
{
    bool whole = true;
    entry->values = count ? calloc(count, sizeof *values) : NULL;
    for (size_t i = 0; i < count; i++) {
        char *key = entry->values ? strdup(values[i].key) : NULL;
        if (!key) {
            free(values[i].value);
            whole = false;
            continue;
        }
        struct queue_value *value = &entry->values[entry->value_count++];
        *value = values[i];
        value->key = key;
        entry->bytes += value->bytes;
    }
    return whole;
}

static bool take_answer(struct entry *entry, const struct queue_answer *answer)
{
    bool whole = take_values(entry, answer->values, answer->value_count);
    entry->id = answer->id ? strdup(answer->id) : NULL;
    entry->reply_to = answer->reply_to ? strdup(answer->reply_to) : NULL;
    whole = whole && !entry->id == !answer->id && !entry->reply_to == !answer->reply_to;
    entry->unique = answer->unique;
    entry->result = answer->result;
    entry->bytes += entry->result ? strlen(entry->result) : 0;
    return whole && entry->result;
}

/* Call if memory is short for the answer: the job goes back to the queue without a result. A dead
 * job (`internal`) must not run again. Its lease is left to expire, so the next REAP makes the job
 * dead. */
static void give_back_unanswered(struct entry *entry)
{
    char label[LABEL_BYTES];
    log_error("job %s: out of memory for its result; the job goes back to the queue",
              entry_label(entry, label));
    entry_drop_answer(entry);
    entry->lease.lost |= entry->internal;
    entry->kind = END_BACK;
}

void end_push(struct entry *entry, enum end_kind kind, const struct queue_answer *answer)
{
    struct queue *queue = entry->queue;
    entry->kind = kind;
    if (answer && !take_answer(entry, answer))
        give_back_unanswered(entry);
    struct outbox *outbox = entry->kind == END_DONE ? &queue->done : &queue->nack;
    entry->lease.ended = true;
    list_push(&outbox->waiting, &entry->lease.node);
    /* A timer calls end_pump (queue.c): no callback may run inside the daemon's call, and more
     * ends may join the batch. */
    timer_ensure(queue, outbox->timer, 0);
}

/* Returns false if the lease was given back because memory is short. */
static bool end_lease(struct queue *queue, struct lease *lease, enum end_kind kind,
                      const struct queue_answer *answer)
{
    struct entry *entry = lease->pending;
    assert(!lease->ended && entry->queue == queue);
    start_forget(entry);
    lease->id = NULL;
    list_remove(&queue->entries.running, &lease->node);
    end_push(entry, kind, answer);
    return entry->kind == kind;
}

bool queue_done(struct queue *queue, struct lease *lease, const struct queue_answer *answer)
{
    return end_lease(queue, lease, END_DONE, answer);
}

bool queue_retry(struct queue *queue, struct lease *lease, const struct queue_answer *answer)
{
    return end_lease(queue, lease, END_RETRY, answer);
}

bool queue_last_attempt(const struct lease *lease)
{
    return lease->attempt >= lease->attempts_max;
}

void queue_give_back(struct queue *queue, struct lease *lease)
{
    (void)end_lease(queue, lease, END_BACK, NULL);
}

void queue_give_back_later(struct queue *queue, struct lease *lease)
{
    (void)end_lease(queue, lease, END_LATER, NULL);
}

/* ---- ends that wait -------------------------------------------------------------------------- */

/* Drops the ends that are not sent. Returns their number. */
static size_t drop(struct outbox *outbox)
{
    struct queue *queue = outbox->queue;
    size_t count = outbox->waiting.length;
    struct list_node *node;
    while ((node = list_pop(&outbox->waiting)) != NULL) {
        struct entry *entry = entry_of(node);
        list_remove(&queue->entries.all, &entry->in_all);
        if (!entry->internal)
            queue->events.settled(queue->events.context, &entry->lease, true, false);
        entry_free(entry);
    }
    if (list_empty(&outbox->sent))
        outbox->refused = false;
    if (count > 0)
        entries_end_batch(queue);
    return count;
}

/* Drops the waiting ends of an outbox if Redis has accepted no call for lease_ms (`away`), or has
 * refused this outbox's calls for as long: it may refuse DONE or NACK while it accepts RENEW.
 * Returns the number of ends. */
static size_t drop_outbox(struct outbox *outbox, bool away, double lease_ms)
{
    uint64_t refused_ms = outbox->refused ? uv_now(outbox->queue->loop) - outbox->refused_ms : 0;
    return away || (double)refused_ms > lease_ms ? drop(outbox) : 0;
}

void end_drop_expired(struct queue *queue)
{
    double lease_ms = queue->options->lease_s * 1000;
    bool away = (double)(uv_now(queue->loop) - queue->calls.accepted_ms) > lease_ms;
    if (queue->group->count == 1) /* no other shard needs their places and memory */
        return;
    if (away)
        store_drop_all(queue);
    size_t dropped =
        drop_outbox(&queue->done, away, lease_ms) + drop_outbox(&queue->nack, away, lease_ms);
    if (dropped > 0) {
        log_warning("%sRedis has accepted no acknowledgements for %g s: those of %zu jobs are "
                    "dropped, and the jobs will run again",
                    queue->log_prefix, queue->options->lease_s, dropped);
        /* If the connection is still up, because Redis refuses calls or this process was suspended,
         * no reconnect will send RESUME. */
        lease_resume_later(queue);
    }
}
