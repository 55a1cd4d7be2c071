#include "queue/lease/outbox.h"

#include <string.h>

#include "queue/lease/lease_impl.h"

void outbox_init(struct outbox *outbox, struct queue *queue, enum script script,
                 enum queue_timer timer)
{
    outbox->queue = queue;
    outbox->script = script;
    outbox->timer = timer;
    list_init(&outbox->waiting);
    list_init(&outbox->sent);
}

void outbox_refuse(struct outbox *outbox)
{
    if (!outbox->refused)
        outbox->refused_ms = uv_now(outbox->queue->loop);
    outbox->refused = true;
}

void outbox_put_back(struct outbox *outbox, bool sent_before)
{
    outbox_give_bytes(outbox);
    list_each_back_safe (node, before, &outbox->sent) {
        list_remove(&outbox->sent, node);
        entry_of(node)->sent_before |= sent_before;
        if (entry_of(node)->doubtful)
            list_push(&outbox->waiting, node); /* after all others: isolate.h */
        else
            list_push_front(&outbox->waiting, node);
    }
}

void outbox_probed(struct outbox *outbox, bool mended)
{
    struct queue *queue = outbox->queue;
    redisReply refusal = {.type = REDIS_REPLY_ERROR, .str = outbox->denied};
    outbox_put_back(outbox, false);
    if (mended || !calls_ready(queue)) {
        timer_start(queue, outbox->timer, 0);
        return;
    }
    outbox_refuse(outbox);
    calls_refused(queue, outbox->script, &refusal, true);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Whether the result is stored at NS:result:ID. Further unique jobs with the same id are answered
 * with it. */
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
        if (entry->kind == END_DONE)
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
        [END_RETRY] = "retry", [END_BACK] = "back", [END_LATER] = "later"};
    const struct options *options = entry->queue->options;
    script_call_number(call, entry->lease.number);
    script_call_token(call, entry->queue->instance, entry->lease.fetch);
    bool kept = keeps_result(entry);
    bool listed = strcmp(options->results, "list") == 0 ||
                  strcmp(options->results, "stream") == 0 || entry->reply_dropped;
    bool wanted = kept || listed || entry->reply_to || entry->kind != END_DONE;
    if (entry->kind != END_DONE)
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

struct script_call *outbox_call(struct outbox *outbox)
{
    const struct options *options = outbox->queue->options;
    const char *results = lengths_results_key(outbox->queue);
    bool nack = outbox->script == SCRIPT_ID_NACK;
    struct script_call *call = nack ? call_new(outbox->queue, SCRIPT_ID_NACK, "lease", results,
                                               "jobs", "delayed", "alone", "dead", "woken")
                                    : call_new(outbox->queue, SCRIPT_ID_DONE, "lease", results);
    list_each (node, &outbox->sent)
        add_keys(call, entry_of(node));
    script_call_number(call, options->results_max);
    script_call_ms(call, options->result_ttl_s);
    if (nack) {
        script_call_number(call, options->dead_max);
        script_call_number(call, options->attempts);
        script_call_ms(call, options->retry_delay_s);
    }
    list_each (node, &outbox->sent)
        add_arguments(call, entry_of(node));
    return call;
}

struct script_call *outbox_control(struct outbox *outbox)
{
    struct list sent = outbox->sent;
    list_init(&outbox->sent);
    struct script_call *call = outbox_call(outbox);
    outbox->sent = sent;
    return call;
}

/* ---- bytes of calls -------------------------------------------------------------------------- */

bool outbox_take_bytes(struct outbox *outbox, size_t bytes)
{
    struct group *group = outbox->queue->group;
    struct outbox *first = group->bytes.first;
    if (bytes <= CALL_SMALL_BYTES)
        return true;
    bool later = first && first != outbox && calls_ready(first->queue) && first->waiting.length > 0;
    if (later || (group->bytes.sent > 0 && group->bytes.sent + bytes > KEY_OUTPUTS_BYTES_MAX)) {
        group->bytes.first = later ? first : outbox;
        return false;
    }
    group->bytes.first = NULL;
    group->bytes.sent += bytes;
    outbox->sent_bytes = bytes;
    return true;
}

bool outbox_lend_bytes(struct group *group, size_t bytes)
{
    const struct outbox *first = group->bytes.first;
    if (bytes <= CALL_SMALL_BYTES)
        return true;
    if ((first && calls_ready(first->queue) && first->waiting.length > 0) ||
        (group->bytes.sent > 0 && group->bytes.sent + bytes > KEY_OUTPUTS_BYTES_MAX))
        return false;
    group->bytes.sent += bytes;
    return true;
}

static void try_again(struct outbox *outbox)
{
    if (outbox->waiting.length > 0)
        timer_start(outbox->queue, outbox->timer, 0);
}

/* SETs come first: a large one would wait for long beside a series of large calls. */
static void give_bytes(struct group *group, size_t bytes)
{
    group->bytes.sent -= bytes;
    each_queue (queue, group)
        if (!list_empty(&queue->stores.all))
            timer_start(queue, TIMER_STORE, 0);
    each_queue (queue, group) {
        try_again(&queue->done);
        try_again(&queue->nack);
    }
}

void outbox_end_loan(struct group *group, size_t bytes)
{
    if (bytes > CALL_SMALL_BYTES)
        give_bytes(group, bytes);
}

void outbox_give_bytes(struct outbox *outbox)
{
    size_t bytes = outbox->sent_bytes;
    outbox->sent_bytes = 0;
    if (bytes > 0)
        give_bytes(outbox->queue->group, bytes);
}
