#include "queue/lease/ack.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "conf/log.h"
#include "queue/job/job.h"
#include "queue/lease/lease_impl.h"

/* Bytes of results and values per batch: Redis serves no other client while it stores them. */
#define BATCH_BYTES (16 * MIB)

enum { ANSWER_GONE = -1, ANSWER_STALE = 0, ANSWER_OK = 1, ANSWER_DEAD = 2 };

/* Reports and frees an entry, which must be on no list. */
static void finish(struct entry *entry, long long answer)
{
    struct queue *queue = entry->queue;
    bool nack = entry->kind != ACK_DONE;
    bool dead = answer == ANSWER_DEAD;
    bool stale = !entry->ended && (answer == ANSWER_STALE || answer == ANSWER_GONE);
    if (stale && entry->sent_before && !entry->lease.lost && (nack || answer == ANSWER_GONE)) {
        stale = false; /* an earlier call without a reply ended it */
        dead = entry->kind == ACK_RETRY && answer == ANSWER_GONE && /* uncovered: moment */
               queue_last_attempt(&entry->lease);
    }
    queue->view.stale += stale;
    queue->view.dead += dead;
    list_remove(&queue->entries.all, &entry->in_all);
    if (!entry->internal)
        queue->events.settled(queue->events.context, &entry->lease, stale, dead);
    entry_free(entry);
}

static struct list_node *first_lost(const struct lane *lane)
{
    list_each(node, &lane->waiting)
        if (entry_of(node)->lease.lost || entry_of(node)->ended)
            return node;
    return NULL;
}

/* Drops leases that another daemon has or that START ended: they need no call. */
static void finish_lost(struct lane *lane)
{
    struct list_node *lost = first_lost(lane);
    bool some = lost != NULL;
    for (; lost; lost = first_lost(lane)) {
        list_remove(&lane->waiting, lost);
        finish(entry_of(lost), ANSWER_STALE);
    }
    if (some)
        entries_end_batch(lane->queue);
    if (list_empty(&lane->waiting) && list_empty(&lane->sent))
        lane->refused = false; /* the refused leases have been dropped */
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

static void answered(void *context, redisReply *reply)
{
    struct lane *lane = context;
    struct queue *queue = lane->queue;
    struct list_node *node;
    timer_turn(queue);
    if (!reply || calls_is_cut(reply)) {
        lane_give_bytes(lane);
        isolate_lost(lane);
        calls_lost(queue, lane->script);
        if (reply)
            calls_refused(queue, lane->script, reply, true);
        if (calls_ready(queue)) /* still connected: memory was short to send the command again */
            timer_start(queue, lane->timer, RETRY_FIRST_MS); /* uncovered: moment */
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR &&
        ((redis_error_is(reply->str, "NOPERM") && denial_probe(lane, reply->str)) ||
         isolate_refused(lane, reply->str)))
        return;
    if (!calls_accept(queue, lane->script, reply, 1 + lane->sent.length, true)) {
        lane_put_back(lane, reply->type != REDIS_REPLY_ERROR);
        lane_refuse(lane);
        return;
    }
    lane->refused = false;
    lane_give_bytes(lane);
    note_trimmed(queue, script_reply_integer(reply, 0));
    bool wakes = lane == &queue->nack;
    for (size_t i = 1; (node = list_pop(&lane->sent)) != NULL; i++) {
        wakes |= entry_of(node)->unique;
        isolate_taken(entry_of(node));
        finish(entry_of(node), script_reply_integer(reply, i));
    }
    entries_end_batch(queue);
    ack_pump(lane);
    if (wakes)
        idle_end(queue); /* a job was delayed or put back, or followers were woken */
}

/* Returns the bytes of the batch. A doubtful end is a batch of its own. */
static size_t take_batch(struct lane *lane)
{
    size_t bytes = 0;
    bool doubtful = false;
    while (!list_empty(&lane->waiting) && lane->sent.length < lane->queue->options->batch) {
        struct entry *entry = entry_of(list_first(&lane->waiting));
        if (!list_empty(&lane->sent) &&
            (doubtful || entry->doubtful || bytes + entry->bytes > BATCH_BYTES))
            break;
        bytes += entry->bytes;
        doubtful = entry->doubtful;
        list_push(&lane->sent, list_pop(&lane->waiting));
    }
    if (doubtful)
        isolate_ask_bound(lane->queue);
    return bytes;
}

/* Moves an end that may be sent now to the front. Returns false if there is none. */
static bool find_ready(struct lane *lane)
{
    uint64_t wait_ms = 0;
    for (size_t i = lane->waiting.length; i > 0; i--) {
        wait_ms = isolate_wait_ms(entry_of(list_first(&lane->waiting)));
        if (wait_ms == 0)
            return true;
        list_push(&lane->waiting, list_pop(&lane->waiting));
    }
    if (wait_ms > 0 && lane->queue->calls.proved) /* else calls_accept starts the timer */
        timer_ensure(lane->queue, lane->timer, wait_ms);
    return false;
}

void ack_pump(struct lane *lane)
{
    struct queue *queue = lane->queue;
    finish_lost(lane);
    if (!calls_ready(queue) || lane->sent.length > 0 || !find_ready(lane))
        return;
    uint64_t since = uv_now(queue->loop) - lane->sent_ms;
    if (lane->waiting.length < queue->options->batch && since < GATHER_MS &&
        !queue_is_closing(queue)) {
        timer_start(queue, lane->timer, GATHER_MS - since);
        return;
    }
    if (!lane_take_bytes(lane, take_batch(lane))) {
        lane_put_back(lane, false);
        /* lane_give_bytes starts the timer earlier, unless the lane that comes first is lost. */
        timer_start(queue, lane->timer, RETRY_FIRST_MS);
        return;
    }
    lane->sent_ms = uv_now(queue->loop);
    if (!script_call_send(lane_call(lane), queue->redis, answered, lane)) {
        lane_put_back(lane, false);
        timer_start(queue, lane->timer, RETRY_FIRST_MS);
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

/* An incomplete answer is not posted: the job goes back to the queue. A dead job (`internal`) must
 * not run again, so its lease is left to expire, and the next REAP dead-letters the job. */
static void give_back_unanswered(struct entry *entry)
{
    char label[LABEL_BYTES];
    log_error("job %s: out of memory for its result; the job goes back to the queue",
              entry_label(entry, label));
    entry_drop_answer(entry);
    entry->lease.lost |= entry->internal;
    entry->kind = ACK_BACK;
}

void ack_push(struct entry *entry, enum ack_kind kind, const struct queue_answer *answer)
{
    struct queue *queue = entry->queue;
    entry->kind = kind;
    if (answer && !take_answer(entry, answer))
        give_back_unanswered(entry);
    struct lane *lane = entry->kind == ACK_DONE ? &queue->done : &queue->nack;
    entry->lease.settled = true;
    list_push(&lane->waiting, &entry->lease.node);
    /* Sent by a timer: no callback may run inside the daemon's call, and more leases may follow. */
    timer_ensure(queue, lane->timer, 0);
}

/* Returns false if the lease was given back because memory is short. */
static bool settle(struct queue *queue, struct lease *lease, enum ack_kind kind,
                   const struct queue_answer *answer)
{
    struct entry *entry = lease->pending;
    assert(!lease->settled && entry->queue == queue);
    start_forget(entry);
    lease->id = NULL;
    list_remove(&queue->entries.running, &lease->node);
    ack_push(entry, kind, answer);
    return entry->kind == kind;
}

bool queue_done(struct queue *queue, struct lease *lease, const struct queue_answer *answer)
{
    return settle(queue, lease, ACK_DONE, answer);
}

bool queue_retry(struct queue *queue, struct lease *lease, const struct queue_answer *answer)
{
    return settle(queue, lease, ACK_RETRY, answer);
}

bool queue_last_attempt(const struct lease *lease)
{
    return lease->attempt >= lease->attempts_max;
}

void queue_give_back(struct queue *queue, struct lease *lease)
{
    (void)settle(queue, lease, ACK_BACK, NULL);
}

void queue_give_back_later(struct queue *queue, struct lease *lease)
{
    (void)settle(queue, lease, ACK_LATER, NULL);
}

/* ---- ends that wait -------------------------------------------------------------------------- */

/* Drops the ends that are not sent, without a call. Returns their number. */
static size_t drop(struct lane *lane)
{
    struct queue *queue = lane->queue;
    size_t count = lane->waiting.length;
    struct list_node *node;
    while ((node = list_pop(&lane->waiting)) != NULL) {
        struct entry *entry = entry_of(node);
        list_remove(&queue->entries.all, &entry->in_all);
        if (!entry->internal)
            queue->events.settled(queue->events.context, &entry->lease, true, false);
        entry_free(entry);
    }
    if (list_empty(&lane->sent))
        lane->refused = false;
    if (count > 0)
        entries_end_batch(queue);
    return count;
}

/* Drops the acknowledgements that wait in a lane if its shard is away, or if Redis has refused the
 * lane's calls for longer than the lease: it may refuse DONE or NACK while it accepts RENEW.
 * Returns the number of jobs. */
static size_t drop_lane(struct lane *lane, bool away, double lease_ms)
{
    uint64_t refused_ms = lane->refused ? uv_now(lane->queue->loop) - lane->refused_ms : 0;
    return away || (double)refused_ms > lease_ms ? drop(lane) : 0;
}

void ack_drop_expired(struct queue *queue)
{
    double lease_ms = queue->options->lease_s * 1000;
    bool away = (double)(uv_now(queue->loop) - queue->calls.accepted_ms) > lease_ms;
    if (queue->group->count == 1) /* no other shard needs their places and memory */
        return;
    size_t dropped =
        drop_lane(&queue->done, away, lease_ms) + drop_lane(&queue->nack, away, lease_ms);
    if (dropped > 0) {
        log_warning("%sRedis has accepted no acknowledgements for %g s: those of %zu jobs are "
                    "dropped, and the jobs will run again", queue->mark, queue->options->lease_s,
                    dropped);
        /* If the connection is still up, because Redis refuses calls or this process was suspended,
         * no reconnect will send RESUME. */
        lease_resume_later(queue);
    }
}
