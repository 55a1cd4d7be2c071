#include "queue/lease/lane.h"

#include <string.h>

#include "queue/lease/lease_impl.h"

void lane_init(struct lane *lane, struct queue *queue, enum script script,
               enum queue_timer timer)
{
    lane->queue = queue;
    lane->script = script;
    lane->timer = timer;
    list_init(&lane->waiting);
    list_init(&lane->sent);
}

void lane_refuse(struct lane *lane)
{
    if (!lane->refused)
        lane->refused_ms = uv_now(lane->queue->loop);
    lane->refused = true;
}

void lane_put_back(struct lane *lane, bool sent_before)
{
    lane_give_bytes(lane);
    list_each_back_safe(node, before, &lane->sent) {
        list_remove(&lane->sent, node);
        entry_of(node)->sent_before |= sent_before;
        if (entry_of(node)->doubtful)
            list_push(&lane->waiting, node); /* the others go first */
        else
            list_push_front(&lane->waiting, node);
    }
}

void lane_probed(struct lane *lane, bool some)
{
    struct queue *queue = lane->queue;
    redisReply refusal = {.type = REDIS_REPLY_ERROR, .str = lane->denied};
    lane_put_back(lane, false);
    if (some || !calls_ready(queue)) {
        timer_start(queue, lane->timer, 0);
        return;
    }
    lane_refuse(lane);
    calls_refused(queue, lane->script, &refusal, true);
}

/* ---- the call -------------------------------------------------------------------------------- */

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

struct script_call *lane_call(struct lane *lane)
{
    const struct options *options = lane->queue->options;
    const char *results = lengths_results_key(lane->queue);
    bool nack = lane->script == SCRIPT_ID_NACK;
    struct script_call *call =
        nack ? call_new(lane->queue, SCRIPT_ID_NACK, "lease", results, "jobs", "delayed",
                        "alone", "dead", "woken")
             : call_new(lane->queue, SCRIPT_ID_DONE, "lease", results);
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

struct script_call *lane_control(struct lane *lane)
{
    struct list sent = lane->sent;
    list_init(&lane->sent);
    struct script_call *call = lane_call(lane);
    lane->sent = sent;
    return call;
}

/* ---- bytes of calls -------------------------------------------------------------------------- */

bool lane_take_bytes(struct lane *lane, size_t bytes)
{
    struct group *group = lane->queue->group;
    struct lane *first = group->bytes.first;
    if (bytes <= CALL_SMALL_BYTES)
        return true;
    bool later = first && first != lane && calls_ready(first->queue) && first->waiting.length > 0;
    if (later || (group->bytes.sent > 0 && group->bytes.sent + bytes > KEY_OUTPUTS_BYTES_MAX)) {
        group->bytes.first = later ? first : lane;
        return false;
    }
    group->bytes.first = NULL;
    group->bytes.sent += bytes;
    lane->sent_bytes = bytes;
    return true;
}

static void try_again(struct lane *lane)
{
    if (lane->waiting.length > 0)
        timer_start(lane->queue, lane->timer, 0);
}

void lane_give_bytes(struct lane *lane)
{
    struct group *group = lane->queue->group;
    if (lane->sent_bytes == 0)
        return;
    group->bytes.sent -= lane->sent_bytes;
    lane->sent_bytes = 0;
    each_queue (queue, group) {
        try_again(&queue->done);
        try_again(&queue->nack);
    }
}
