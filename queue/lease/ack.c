/* ack.c - ends leases by DONE and NACK, in batches.
 *
 * A lane sends one call at a time; leases that end meanwhile form the next batch. If a call gets no
 * reply, Redis may have run it. Its leases are sent again, one by one (isolate.c), and the reply
 * "the job is gone" then means success. */
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
    list_remove(&queue->entries, &entry->in_all);
    if (!entry->internal)
        queue->events.settled(queue->events.context, &entry->lease, stale, dead);
    queue_entry_free(entry);
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
        queue_end_batch(lane->queue);
    if (list_empty(&lane->waiting) && list_empty(&lane->sent))
        lane->refused = false; /* the refused leases have been dropped */
}

size_t ack_drop(struct lane *lane)
{
    struct queue *queue = lane->queue;
    size_t count = lane->waiting.length;
    struct list_node *node;
    while ((node = list_pop(&lane->waiting)) != NULL) {
        struct entry *entry = entry_of(node);
        list_remove(&queue->entries, &entry->in_all);
        if (!entry->internal)
            queue->events.settled(queue->events.context, &entry->lease, true, false);
        queue_entry_free(entry);
    }
    if (list_empty(&lane->sent))
        lane->refused = false;
    if (count > 0)
        queue_end_batch(queue);
    return count;
}

static void refuse(struct lane *lane)
{
    if (!lane->refused)
        lane->refused_ms = uv_now(lane->queue->loop);
    lane->refused = true;
}

static void put_back(struct lane *lane, bool sent_before)
{
    group_give_bytes(lane);
    list_each_back_safe(node, before, &lane->sent) {
        list_remove(&lane->sent, node);
        entry_of(node)->sent_before |= sent_before;
        if (entry_of(node)->doubtful)
            list_push(&lane->waiting, node); /* the others go first */
        else
            list_push_front(&lane->waiting, node);
    }
}

static void note_trimmed(struct queue *queue, long long trimmed)
{
    if (trimmed <= 0)
        return;
    if (queue->view.trimmed == 0)
        log_warning("%s:%s, :dead or a reply list is full: its oldest entries are deleted",
                    queue->options->namespace, queue_results_key(queue));
    queue->view.trimmed += (uint64_t)trimmed;
}

void ack_probed(struct lane *lane, bool some)
{
    struct queue *queue = lane->queue;
    redisReply refusal = {.type = REDIS_REPLY_ERROR, .str = lane->denied};
    put_back(lane, false);
    if (some || !queue_ready(queue)) {
        ack_pump(lane);
        queue_close_check(queue);
        return;
    }
    refuse(lane);
    queue_refused(queue, lane->script, &refusal, true);
}

static void answered(void *context, redisReply *reply)
{
    struct lane *lane = context;
    struct queue *queue = lane->queue;
    struct list_node *node;
    if (!reply || queue_is_cut(reply)) {
        group_give_bytes(lane);
        isolate_lost(lane);
        queue_lost(queue, lane->script);
        if (reply)
            queue_refused(queue, lane->script, reply, true);
        if (queue_ready(queue)) /* still connected: memory was short to send the command again */
            queue_timer_start(queue, lane->timer, RETRY_FIRST_MS); /* uncovered: moment */
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR &&
        ((redis_error_is(reply->str, "NOPERM") && denial_probe(lane, reply->str)) ||
         isolate_refused(lane, reply->str)))
        return;
    if (!queue_accepts(queue, lane->script, reply, 1 + lane->sent.length, true)) {
        put_back(lane, reply->type != REDIS_REPLY_ERROR);
        refuse(lane);
        return;
    }
    lane->refused = false;
    group_give_bytes(lane);
    note_trimmed(queue, script_reply_integer(reply, 0));
    bool wakes = lane == &queue->nack;
    for (size_t i = 1; (node = list_pop(&lane->sent)) != NULL; i++) {
        wakes |= entry_of(node)->unique;
        isolate_taken(entry_of(node));
        finish(entry_of(node), script_reply_integer(reply, i));
    }
    queue_end_batch(queue);
    ack_pump(lane);
    if (wakes)
        fetch_wake(queue); /* a job was delayed or put back, or followers were woken */
    else
        fetch_pump(queue);
    queue_close_check(queue);
}

/* Returns true if the result is kept at NS:result:ID. Duplicates of a unique job read it there. */
static bool keeps_result(const struct entry *entry)
{
    return entry->id && (entry->unique || strcmp(entry->queue->options->results, "none") != 0);
}

static void add_keys(struct script_call *call, const struct entry *entry)
{
    script_call_job_key(call, entry->lease.number);
    if (keeps_result(entry))
        script_call_ns_key(call, "result:%s", entry->id);
    if (entry->id && entry->unique) {
        script_call_ns_key(call, "unique:%s", entry->id);
        script_call_ns_key(call, "waits:%s", entry->id);
        if (entry->kind == ACK_DONE)
            script_call_ns_key(call, "woken");
    }
    if (entry->reply_to)
        script_call_key(call, entry->reply_to);
    for (size_t i = 0; i < entry->value_count; i++)
        script_call_key(call, entry->values[i].key);
}

static void add_arguments(struct script_call *call, const struct entry *entry)
{
    static const char *const kinds[] = {
        [ACK_RETRY] = "retry", [ACK_BACK] = "back", [ACK_LATER] = "later"};
    const struct options *options = entry->queue->options;
    script_call_number(call, entry->lease.number);
    script_call_token(call, entry->queue->instance, entry->lease.fetch);
    bool kept = keeps_result(entry);
    bool listed = strcmp(options->results, "list") == 0 ||
                  strcmp(options->results, "stream") == 0 || entry->reply_dropped;
    bool wanted = kept || listed || entry->reply_to || entry->kind != ACK_DONE;
    if (entry->kind != ACK_DONE)
        script_call_text(call, kinds[entry->kind]);
    script_call_text(call, entry->result && wanted ? entry->result : "");
    script_call_text(call, !kept ? "0" : entry->unique ? "2" : "1");
    script_call_text(call, entry->reply_to ? "1" : listed ? "0" : "-");
    script_call_number(call, entry->value_count);
    for (size_t i = 0; i < entry->value_count; i++) {
        script_call_bytes(call, entry->values[i].value, entry->values[i].bytes);
        script_call_number(call, entry->values[i].ttl_s);
    }
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
    if (wait_ms > 0 && lane->queue->proved) /* else queue_accepts starts the timer */
        queue_timer_ensure(lane->queue, lane->timer, wait_ms);
    return false;
}

static struct script_call *build_call(struct lane *lane)
{
    const struct options *options = lane->queue->options;
    const char *results = queue_results_key(lane->queue);
    bool nack = lane->script == SCRIPT_ID_NACK;
    struct script_call *call =
        nack ? queue_call(lane->queue, SCRIPT_ID_NACK, "lease", results, "jobs", "delayed",
                          "alone", "dead", "woken")
             : queue_call(lane->queue, SCRIPT_ID_DONE, "lease", results);
    list_each(node, &lane->sent)
        add_keys(call, entry_of(node));
    script_call_number(call, options->results_max);
    script_call_ms(call, options->result_ttl_s);
    if (nack) {
        script_call_number(call, options->dead_max);
        script_call_number(call, options->attempts);
        script_call_ms(call, options->retry_delay_s);
    }
    list_each(node, &lane->sent)
        add_arguments(call, entry_of(node));
    return call;
}

struct script_call *ack_control(struct lane *lane)
{
    struct list sent = lane->sent;
    list_init(&lane->sent);
    struct script_call *call = build_call(lane);
    lane->sent = sent;
    return call;
}

void ack_pump(struct lane *lane)
{
    struct queue *queue = lane->queue;
    finish_lost(lane);
    if (!queue_ready(queue) || lane->sent.length > 0 || !find_ready(lane))
        return;
    uint64_t since = uv_now(queue->loop) - lane->sent_ms;
    if (lane->waiting.length < queue->options->batch && since < GATHER_MS &&
        !queue_is_closing(queue)) {
        queue_timer_start(queue, lane->timer, GATHER_MS - since);
        return;
    }
    if (!group_take_bytes(lane, take_batch(lane))) {
        put_back(lane, false);
        /* group_give_bytes starts the timer earlier, unless the lane that comes first is lost. */
        queue_timer_start(queue, lane->timer, RETRY_FIRST_MS);
        return;
    }
    lane->sent_ms = uv_now(queue->loop);
    if (!script_call_send(build_call(lane), queue->redis, answered, lane)) {
        put_back(lane, false);
        queue_timer_start(queue, lane->timer, RETRY_FIRST_MS);
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
              queue_entry_label(entry, label));
    queue_entry_drop_answer(entry);
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
    queue_timer_ensure(queue, lane->timer, 0);
}

/* Returns false if the lease was given back because memory is short. */
static bool settle(struct queue *queue, struct lease *lease, enum ack_kind kind,
                   const struct queue_answer *answer)
{
    struct entry *entry = lease->pending;
    assert(!lease->settled && entry->queue == queue);
    start_forget(entry);
    lease->id = NULL;
    list_remove(&queue->running, &lease->node);
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
