#include "queue/ctl/submit/result_reader.h"

#include <stdlib.h>
#include <string.h>

#include "queue/ctl/show.h"

/* The largest job number of a submit. A result with a larger one is not from this program. */
#define NUMBER_MAX 100000000ull

/* Returns false if the number was marked before, or memory is short. */
static bool mark_seen(struct result_reader *reader, uint64_t number)
{
    size_t byte = number / 8;
    uint8_t bit = (uint8_t)(1u << number % 8);
    if (byte >= reader->seen_bytes) {
        size_t bytes = 2 * byte + 64;
        uint8_t *seen = realloc(reader->seen, bytes);
        if (!seen) /* uncovered: gone */
            return false;
        memset(seen + reader->seen_bytes, 0, bytes - reader->seen_bytes);
        reader->seen = seen;
        reader->seen_bytes = bytes;
    }
    bool fresh = !(reader->seen[byte] & bit);
    reader->seen[byte] |= bit;
    return fresh;
}

static void deliver(struct result_reader *reader, const char *text)
{
    cJSON *result = cJSON_Parse(text);
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(result, "meta");
    double number = show_number(meta, "n");
    if (number >= 1 && number <= (double)NUMBER_MAX && mark_seen(reader, (uint64_t)number))
        reader->each(reader->context, result, text, (uint64_t)number, show_text(meta, "file"));
    cJSON_Delete(result);
}

/* Removes the results by their text, not by their index, so that repeating LREM does no harm. */
static void remove_read(struct client *client, const char *list, const redisReply *reply)
{
    for (size_t i = reply->elements; i-- > 0;) {
        const char *argv[] = {"LREM", list, "-1", reply->element[i]->str};
        size_t lengths[] = {4, strlen(list), 2, reply->element[i]->len};
        client_send_words(client, 4, argv, lengths);
    }
    for (size_t i = 0; i < reply->elements; i++)
        freeReplyObject(
            client_take(client)); /* if LREM fails, the result comes again, and is skipped */
}

static redisReply *ask_once(struct result_reader *reader, struct client *client, const char *list)
{
    client_send(client, "LRANGE %s -64 -1", list);
    redisReply *reply = client_take(client);
    if (client_reply_ok(client, reply, "LRANGE"))
        return reply;
    /* uncovered: gone */
    reader->refused = !client_is_transient(reply);
    freeReplyObject(reply);
    return NULL;
}

bool result_reader_take(struct result_reader *reader, struct client *client, const char *list,
                        bool waits, size_t *taken)
{
    *taken = 0;
    reader->refused = false;
    redisReply *reply = waits ? client_ask(client, "LRANGE %s -64 -1", list)
                              : ask_once(reader, client, list);
    if (!reply)
        return false;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0) {
        for (size_t i = reply->elements; i-- > 0;) /* the oldest is the last */
            if (reply->element[i]->type == REDIS_REPLY_STRING)
                deliver(reader, reply->element[i]->str);
        remove_read(client, list, reply);
        *taken = reply->elements;
    }
    freeReplyObject(reply);
    return true;
}

void result_reader_clear(struct result_reader *reader)
{
    free(reader->seen);
}
