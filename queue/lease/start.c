#include "queue/lease/start.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "queue/lease/lease_impl.h"

/* After this time, in ms, a unique job that waits for the first job with its id asks again.
 * Usually the end of the first job wakes it earlier. The limit helps if keys were deleted by
 * hand. */
#define FOLLOW_MS 300000

struct ask {
    struct list_node node;
    struct entry *entry; /* NULL after the lease ended */
    char *id;            /* or NULL */
    bool unique;
    struct job_time not_before, expires;
    bool sent;           /* in the outstanding call */
    bool sent_before;    /* an earlier call had no reply: Redis may have run it */
};

static struct ask *ask_of(struct list_node *node)
{
    return container_of(node, struct ask, node);
}

static void ask_free(struct ask *ask)
{
    if (ask->entry)
        ask->entry->ask = NULL;
    free(ask->id);
    free(ask);
}

bool start_is_sent(const struct entry *entry)
{
    return entry->ask && (entry->ask->sent || entry->ask->sent_before);
}

void start_forget(struct entry *entry)
{
    if (entry->ask)
        entry->ask->entry = NULL;
    entry->ask = NULL;
}

void start_free_all(struct queue *queue)
{
    struct list_node *node;
    list_take(&queue->start.asks, &queue->start.asked);
    while ((node = list_pop(&queue->start.asks)) != NULL)
        ask_free(ask_of(node)); /* uncovered: refusal */
}

/* ---- the call -------------------------------------------------------------------------------- */

static void put_back(struct queue *queue, bool sent_before)
{
    list_each_back_safe(node, before, &queue->start.asked) {
        list_remove(&queue->start.asked, node);
        ask_of(node)->sent = false;
        ask_of(node)->sent_before |= sent_before;
        list_push_front(&queue->start.asks, node);
    }
}

/* Reports the answer to the daemon and frees the question. The question must be on no list. */
static void apply_decision(struct queue *queue, struct ask *ask, long long answer,
                           const char *kept)
{
    struct entry *entry = ask->entry;
    bool ended_before = ask->sent_before && (ask->unique || ask->not_before.seconds > 0);
    ask_free(ask);
    if (!entry || entry->lease.lost)
        return;
    if (answer < START_GO && ended_before)
        answer = START_WAITS;
    if (answer < START_GO || answer > START_CANCELLED) {
        entry_lose(entry);
        return;
    }
    entry->ended_by_start = answer == START_WAITS;
    queue->events.start_decided(queue->events.context, &entry->lease,
                                (enum start_decision)answer, kept);
}

static void start_answered(void *context, redisReply *reply)
{
    struct queue *queue = context;
    struct list_node *node;
    bool waits = false;
    timer_turn(queue);
    if (!reply) {
        uint32_t count = (uint32_t)queue->start.asked.length;
        if (queue->calls.proved && limit_lost(&queue->start.limit, count, uv_now(queue->loop)))
            redis_reset_backoff(queue->redis);
        calls_lost(queue, SCRIPT_ID_START);
        put_back(queue, true);
        /* The connection is up: after NOSCRIPT, memory was short to send the script's text. */
        if (calls_ready(queue))
            timer_start(queue, TIMER_START, RETRY_FIRST_MS); /* uncovered: memory */
        return;
    }
    if (!calls_accept(queue, SCRIPT_ID_START, reply, 2 * queue->start.asked.length,
                      true)) { /* uncovered: refusal */
        put_back(queue, reply->type != REDIS_REPLY_ERROR);
        return;
    }
    limit_accepted(&queue->start.limit, uv_now(queue->loop));
    for (size_t i = 0; (node = list_pop(&queue->start.asked)) != NULL; i += 2) {
        const redisReply *kept = reply->element[i + 1];
        long long answer = script_reply_integer(reply, i);
        waits |= answer == START_WAITS;
        apply_decision(queue, ask_of(node), answer,
                       kept->type == REDIS_REPLY_STRING ? kept->str : "");
    }
    start_pump(queue);
    /* Causes a FETCH: its reply says when the next delayed job is due, perhaps one of these. */
    if (waits)
        idle_end(queue);
}

static void add_ms(struct script_call *call, const struct job_time *time, double ms)
{
    if (time->seconds == 0)
        script_call_text(call, "-1");
    else
        script_call_format(call, "%s%.0f", time->relative ? "+" : "", ms);
}

static void add_keys(struct script_call *call, const struct ask *ask)
{
    script_call_job_key(call, ask->entry->lease.number);
    if (!ask->id)
        return;
    script_call_ns_key(call, "waits:%s", ask->id);
    script_call_ns_key(call, "unique:%s", ask->id);
    script_call_ns_key(call, "result:%s", ask->id);
}

static void add_arguments(struct script_call *call, const struct ask *ask)
{
    const struct entry *entry = ask->entry;
    script_call_number(call, entry->lease.number);
    script_call_token(call, entry->queue->instance, entry->lease.fetch);
    script_call_text(call, ask->id ? ask->id : "");
    script_call_text(call, ask->unique ? "1" : "0");
    /* Rounded so that a job never starts before not_before or after expires. */
    add_ms(call, &ask->not_before, ceil(ask->not_before.seconds * 1000));
    add_ms(call, &ask->expires, floor(ask->expires.seconds * 1000));
}

static struct script_call *build_call(struct queue *queue)
{
    struct script_call *call = call_new(queue, SCRIPT_ID_START, "lease", "delayed", "cancel");
    list_each(node, &queue->start.asked)
        add_keys(call, ask_of(node));
    script_call_text(call, queue->options->namespace);
    script_call_number(call, FOLLOW_MS);
    list_each(node, &queue->start.asked)
        add_arguments(call, ask_of(node));
    return call;
}

void start_pump(struct queue *queue)
{
    if (!calls_may_send(queue, SCRIPT_ID_START) || queue->start.asked.length > 0)
        return;
    uint32_t most = limit_count(&queue->start.limit, (uint32_t)queue->options->batch);
    while (!list_empty(&queue->start.asks) && queue->start.asked.length < most) {
        struct ask *ask = ask_of(list_pop(&queue->start.asks));
        if (!ask->entry) {
            ask_free(ask);
            continue;
        }
        ask->sent = true;
        list_push(&queue->start.asked, &ask->node);
    }
    if (queue->start.asked.length > 0 &&
        !script_call_send(build_call(queue), queue->redis, start_answered, queue)) {
        put_back(queue, false); /* uncovered: refusal */
        timer_start(queue, TIMER_START, RETRY_FIRST_MS);
    }
}

/* ---- questions ------------------------------------------------------------------------------- */

bool queue_ask(struct queue *queue, struct lease *lease, const struct queue_conditions *conditions)
{
    struct entry *entry = lease->pending;
    struct ask *ask = calloc(1, sizeof *ask);
    if (!ask || (conditions->id && !(ask->id = strdup(conditions->id)))) { /* uncovered: refusal */
        free(ask);
        return false;
    }
    start_forget(entry);
    entry->ask = ask;
    ask->entry = entry;
    ask->unique = conditions->unique;
    ask->not_before = conditions->not_before;
    ask->expires = conditions->expires;
    list_push(&queue->start.asks, &ask->node);
    /* A timer sends the question: start_decided must not run inside the daemon's call, and more
     * questions may join the batch. */
    timer_ensure(queue, TIMER_START, 0);
    return true;
}

void start_check(struct queue *queue, long long horizon)
{
    queue->start.horizon = horizon;
    list_each(node, &queue->entries.running) {
        struct entry *entry = entry_of(node);
        struct lease *lease = &entry->lease;
        if (lease->id && (long long)lease->number <= horizon && !entry->ask && !lease->lost &&
            !queue_ask(queue, lease, &(struct queue_conditions){.id = lease->id}))
            /* uncovered: refusal */
            return; /* memory is short; the next reply of RENEW calls start_check again */
    }
}
