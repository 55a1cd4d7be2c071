#include "queue/lease/isolate.h"

#include <stdlib.h>
#include <string.h>

#include "conf/log.h"
#include "queue/job/result.h"
#include "queue/lease/lease_impl.h"

/* An end whose call broke a connection waits this long on the next connection, so that the other
 * ends are sent first. */
#define OTHERS_MS 200

/* ---- the bound ------------------------------------------------------------------------------- */

void isolate_take_bound(struct queue *queue, const redisReply *reply)
{
    if (script_reply_is_array(reply, 2) && reply->element[1]->type == REDIS_REPLY_STRING)
        queue->isolate.bulk_max = strtoull(reply->element[1]->str, NULL, 10);
}

static void bound_read(void *context, redisReply *reply)
{
    if (reply)
        isolate_take_bound(context, reply);
}

void isolate_ask_bound(struct queue *queue)
{
    redis_ask(queue->redis, 0, bound_read, queue, "CONFIG GET proto-max-bulk-len");
}

/* Whether Redis accepts an argument of this size, by its proto-max-bulk-len. */
static bool is_within_bound(const struct queue *queue, size_t bytes)
{
    return queue->isolate.bulk_max > 0 && bytes <= queue->isolate.bulk_max;
}

void isolate_describe(const struct queue *queue, struct error *error, size_t bytes,
                      const char *what)
{
    char bound[64] = "is not known";
    if (queue->isolate.bulk_max > 0)
        snprintf(bound, sizeof bound, "is %llu", (unsigned long long)queue->isolate.bulk_max);
    error_set(error, STATUS_PATH_REFUSED,
              "Redis does not take the %zu bytes of %s: it breaks the connection, or refuses them; "
              "its proto-max-bulk-len %s, and it or a proxy may have a lower limit; raise it, or "
              "make the output smaller", bytes, what, bound);
}

/* ---- leaving out ----------------------------------------------------------------------------- */

/* Removes the outputs that are longer than proto-max-bulk-len. If none is, or the limit is not
 * known, another limit is the reason: removes all. Returns false if memory is short. */
static bool drop_values(struct entry *entry)
{
    struct queue *queue = entry->queue;
    bool all = true, whole = true;
    for (size_t i = 0; i < entry->value_count; i++)
        all &= is_within_bound(queue, entry->values[i].bytes);
    for (size_t i = entry->value_count; i > 0; i--) {
        const struct queue_value *value = &entry->values[i - 1];
        if (!all && is_within_bound(queue, value->bytes))
            continue;
        struct error error = {0};
        char what[128];
        snprintf(what, sizeof what, "the output for the key \"%.80s\"", value->key);
        isolate_describe(queue, &error, value->bytes, what);
        whole &= denial_drop_value(entry, i - 1, &error);
    }
    return whole;
}

static bool shorten_result(struct entry *entry)
{
    struct error error = {0};
    char label[LABEL_BYTES];
    size_t bytes = strlen(entry->result);
    isolate_describe(entry->queue, &error, bytes, "the result");
    char *result = result_shorten(entry->result, &error);
    if (!result || !denial_note(entry, &error)) {
        free(result);
        return false;
    }
    log_warning("job %s failed: %s: %s", entry_label(entry, label),
                status_name(error.status), error.text);
    entry->bytes -= bytes - strlen(result);
    free(entry->result);
    entry->result = result;
    return true;
}

uint64_t isolate_wait_ms(const struct entry *entry)
{
    const struct queue *queue = entry->queue;
    if (!entry->doubtful)
        return 0;
    if (!queue->calls.proved)
        return OTHERS_MS;
    uint64_t age_ms = uv_now(queue->loop) - queue->calls.proved_ms;
    return entry->cuts == 0 || age_ms >= OTHERS_MS ? 0 : OTHERS_MS - age_ms;
}

/* Call if Redis did not accept the end in a call of its own. Makes the end smaller after
 * ISOLATE_CUTS_MAX of these calls, or at once if a smaller one failed before. Returns true if it
 * did. */
static bool cut(struct entry *entry)
{
    struct queue *queue = entry->queue;
    bool is_known = queue->isolate.blamed_bytes > 0 && entry->bytes >= queue->isolate.blamed_bytes;
    if (entry->bytes <= ISOLATE_BYTES_LEAST)
        return false;
    redis_reset_backoff(queue->redis); /* retry soon: the number of cuts is bounded */
    if (++entry->cuts < ISOLATE_CUTS_MAX && !is_known)
        return false;
    size_t bytes = entry->bytes;
    bool some = entry->value_count > 0 ? drop_values(entry) : shorten_result(entry);
    entry->cuts = 0;
    if (some && !is_known)
        queue->isolate.blamed_bytes = bytes;
    return some;
}

void isolate_taken(const struct entry *entry)
{
    if (entry->bytes >= entry->queue->isolate.blamed_bytes)
        entry->queue->isolate.blamed_bytes = 0; /* an administrator has raised the limit */
}

/* ---- calls without a reply ------------------------------------------------------------------- */

void isolate_lost(struct outbox *outbox)
{
    bool single = outbox->sent.length == 1;
    struct list_node *node;
    while ((node = list_pop(&outbox->sent)) != NULL) {
        struct entry *entry = entry_of(node);
        if (single && entry->doubtful)
            (void)cut(entry);
        entry->sent_before = entry->doubtful = true;
        list_push(&outbox->waiting, node);
    }
}

/* ---- calls that Redis refuses ---------------------------------------------------------------- */

/* The reply to the control, a call without leases. It was sent after Redis had refused a call with
 * one end. If Redis accepts the control, the end was the reason. */
static void control_answered(void *context, redisReply *reply)
{
    struct outbox *outbox = context;
    bool taken = reply && script_reply_is_array(reply, 1);
    if (taken)
        (void)cut(entry_of(list_first(&outbox->sent)));
    outbox->probes--;
    outbox_probed(outbox, taken);
}

bool isolate_refused(struct outbox *outbox, const char *error)
{
    struct queue *queue = outbox->queue;
    bool single = outbox->sent.length == 1;
    if (redis_refusal(error) != REDIS_REFUSAL_OTHER || redis_error_is(error, "WRONGTYPE"))
        return false;
    struct entry *entry = entry_of(list_first(&outbox->sent));
    list_each (node, &outbox->sent)
        entry_of(node)->doubtful = true;
    if (!single || entry->bytes <= ISOLATE_BYTES_LEAST)
        return false;
    snprintf(outbox->denied, sizeof outbox->denied, "%s", error);
    if (!script_call_send(outbox_control(outbox), queue->redis, control_answered, outbox))
        return false;
    outbox->probes++;
    return true;
}
