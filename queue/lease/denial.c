#include "queue/lease/denial.h"

#include <stdio.h>
#include <stdlib.h>

#include "conf/log.h"
#include "queue/job/job.h"
#include "queue/job/result.h"
#include "queue/lease/lease_impl.h"

static_assert(JOB_OUTPUTS_MAX <= 32, "values_denied has a bit for each value");

/* The key of a probe: one of these, or an index of entry.values. */
enum { CONTROL = -2, REPLY_TO = -1 };

struct probe {
    struct outbox *outbox;
    struct entry *entry; /* stays in outbox->sent until the last reply; NULL for the control */
    int target;
};

static void drop_reply(struct entry *entry)
{
    char text[LABEL_BYTES];
    log_warning("job %s: Redis denies its reply_to \"%.80s\"; the result goes to %s:%s",
                entry_label(entry, text), entry->reply_to, entry->queue->options->namespace,
                lengths_results_key(entry->queue));
    free(entry->reply_to);
    entry->reply_to = NULL;
    entry->reply_dropped = true;
}

static void drop_value(struct entry *entry, size_t index)
{
    struct queue_value *value = &entry->values[index];
    entry->bytes -= value->bytes;
    free((char *)value->key);
    free(value->value);
    *value = entry->values[--entry->value_count];
}

bool denial_note(struct entry *entry, const struct error *error)
{
    struct error *copy = malloc(sizeof *copy);
    if (!copy)
        return false;
    *copy = *error;
    free((struct error *)entry->lease.denied);
    entry->lease.denied = copy;
    return true;
}

bool denial_drop_value(struct entry *entry, size_t index, const struct error *error)
{
    char *result = result_deny(entry->result, entry->values[index].key, error);
    if (!result || !denial_note(entry, error)) {
        free(result);
        return false;
    }
    char text[LABEL_BYTES];
    log_info("job %s failed: %s: %s", entry_label(entry, text), status_name(error->status),
             error->text);
    free(entry->result);
    entry->result = result;
    drop_value(entry, index);
    return true;
}

void denial_describe(struct error *error, const char *key, const char *reason)
{
    error_set(error, STATUS_PATH_REFUSED,
              "Redis does not let this daemon write the key \"%.80s\" "
              "(%.80s); permit it for the daemon's user or name another key",
              key, reason);
}

static bool deny_value(struct entry *entry, size_t index, const char *reason)
{
    struct error error = {0};
    denial_describe(&error, entry->values[index].key, reason);
    return denial_drop_value(entry, index, &error);
}

/* Removes the denied keys of an entry. Returns true if it had any. */
static bool leave_out(struct entry *entry, const char *reason)
{
    bool some = entry->reply_denied;
    if (entry->reply_denied)
        drop_reply(entry);
    for (size_t i = entry->value_count; i > 0; i--)
        if (entry->values_denied >> (i - 1) & 1)
            some |= deny_value(entry, i - 1, reason);
    return some;
}

static void all_answered(struct outbox *outbox)
{
    bool some = false;
    list_each (node, &outbox->sent) {
        struct entry *entry = entry_of(node);
        if (!outbox->control_denied)
            some |= leave_out(entry, outbox->denied);
        entry->reply_denied = false;
        entry->values_denied = 0;
    }
    outbox_probed(outbox, some);
}

static void probed(void *context, redisReply *reply)
{
    struct probe *probe = context;
    struct outbox *outbox = probe->outbox;
    if (reply && reply->type == REDIS_REPLY_ERROR && redis_error_is(reply->str, "NOPERM")) {
        if (probe->target == CONTROL)
            outbox->control_denied = true;
        else if (probe->target == REPLY_TO)
            probe->entry->reply_denied = true;
        else
            probe->entry->values_denied |= 1u << probe->target;
    }
    free(probe);
    if (--outbox->probes == 0)
        all_answered(outbox);
}

static bool send_probe(struct outbox *outbox, struct entry *entry, int target, const char *key)
{
    struct probe *probe = malloc(sizeof *probe);
    if (!probe)
        return false;
    *probe = (struct probe){outbox, entry, target};
    if (!redis_ask(outbox->queue->redis, 0, probed, probe, "EVAL %s 1 %s", "return 1", key)) {
        free(probe);
        return false;
    }
    outbox->probes++;
    return true;
}

bool denial_probe(struct outbox *outbox, const char *error)
{
    char control[256];
    bool user_keys = false;
    list_each (node, &outbox->sent)
        user_keys |= entry_of(node)->reply_to || entry_of(node)->value_count > 0;
    snprintf(control, sizeof control, "%s:lease", outbox->queue->options->namespace);
    outbox->control_denied = false;
    snprintf(outbox->denied, sizeof outbox->denied, "%s", error);
    if (!user_keys || !send_probe(outbox, NULL, CONTROL, control))
        return false;
    /* A key whose probe cannot be sent counts as permitted. If it is not, the batch is refused and
     * probed again. */
    list_each (node, &outbox->sent) {
        struct entry *entry = entry_of(node);
        if (entry->reply_to)
            send_probe(outbox, entry, REPLY_TO, entry->reply_to);
        for (size_t i = 0; i < entry->value_count; i++)
            send_probe(outbox, entry, (int)i, entry->values[i].key);
    }
    return true;
}
