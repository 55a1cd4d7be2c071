#include "queue/lease/entry.h"

#include <stdlib.h>

#include "queue/job/job.h"
#include "queue/lease/lease_impl.h"

struct entry *entry_new(struct queue *queue)
{
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->queue = entry->lease.queue = queue;
    entry->lease.pending = entry;
    entry->lease.shard = queue->shard;
    entry->lease.shards = queue->group->count;
    entry->lease.attempts_max = (uint32_t)queue->options->attempts;
    list_push(&queue->entries.all, &entry->in_all);
    return entry;
}

/* Takes a string out of a reply. hiredis has malloc'd it, with a NUL at its end. */
static char *take_string(redisReply *reply, size_t *bytes)
{
    char *text = reply->str;
    *bytes = (size_t)reply->len;
    reply->str = NULL;
    return text;
}

struct entry *entry_from_reply(struct queue *queue, redisReply *reply, size_t index,
                               uint64_t counter, size_t text_bytes_max)
{
    uint64_t number;
    redisReply *text = index + 2 < reply->elements ? reply->element[index + 2] : NULL;
    if (!text || !script_reply_number(reply, index, &number) ||
        reply->element[index + 1]->type != REDIS_REPLY_INTEGER) /* uncovered: memory */
        return NULL;
    struct entry *entry = entry_new(queue);
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

void entry_drop_answer(struct entry *entry)
{
    for (size_t i = 0; i < entry->value_count; i++) {
        free((char *)entry->values[i].key);
        free(entry->values[i].value);
    }
    free(entry->values);
    free(entry->result);
    free(entry->id);
    free(entry->reply_to);
    entry->values = NULL;
    entry->result = entry->id = entry->reply_to = NULL;
    entry->value_count = entry->bytes = 0;
    entry->unique = false;
}

void entry_free(struct entry *entry)
{
    entry_drop_answer(entry);
    free((struct error *)entry->lease.denied);
    free(entry->lease.raw);
    free(entry->lease.head);
    free(entry);
}

const char *entry_label(const struct entry *entry, char label[LABEL_BYTES])
{
    size_t bytes;
    const char *text = lease_text(&entry->lease, &bytes);
    return label_job(label, lease_name(&entry->lease), NULL, text, bytes);
}

size_t entries_unacknowledged(const struct queue *queue)
{
    return queue->entries.all.length - queue->entries.running.length;
}

void entries_end_batch(struct queue *queue)
{
    if (queue->events.batch_ended)
        queue->events.batch_ended(queue->events.context);
}

void entry_lose(struct entry *entry)
{
    struct queue *queue = entry->queue;
    if (entry->lease.lost) /* uncovered: moment */
        return;
    entry->lease.lost = true;
    if (!entry->lease.ended)
        queue->events.lost(queue->events.context, &entry->lease);
}
