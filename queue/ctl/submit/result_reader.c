#include "queue/ctl/submit/result_reader.h"

#include <stdlib.h>
#include <string.h>

#include "queue/ctl/show.h"

#define BATCH_TEXT "-64"
/* 10^8 jobs in one submit: what lies beyond is no number of ours. */
#define NUMBER_MAX 100000000ull

/* Notes a number; false if it was noted before, or cannot be. */
static bool note(struct harvest *harvest, uint64_t number)
{
    size_t byte = number / 8;
    uint8_t bit = (uint8_t)(1u << number % 8);
    if (number == 0 || number > NUMBER_MAX)
        return false;
    if (byte >= harvest->seen_bytes) {
        size_t bytes = 2 * byte + 64;
        uint8_t *seen = realloc(harvest->seen, bytes);
        if (!seen)
            return false;
        memset(seen + harvest->seen_bytes, 0, bytes - harvest->seen_bytes);
        harvest->seen = seen;
        harvest->seen_bytes = bytes;
    }
    bool fresh = !(harvest->seen[byte] & bit);
    harvest->seen[byte] |= bit;
    return fresh;
}

static void hand_out(struct harvest *harvest, const char *text)
{
    cJSON *result = cJSON_Parse(text);
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(result, "meta");
    double number = show_number(meta, "n");
    if (number >= 1 && number <= (double)NUMBER_MAX && note(harvest, (uint64_t)number))
        harvest->each(harvest->context, result, text, (uint64_t)number, show_text(meta, "file"));
    cJSON_Delete(result);
}

/* By their text and not by their place: it does no harm to do it twice, or late. */
static void take_away(struct harvest *harvest, const redisReply *reply)
{
    for (size_t i = reply->elements; i-- > 0;) {
        const char *argv[] = {"LREM", harvest->list, "-1", reply->element[i]->str};
        size_t lengths[] = {4, strlen(harvest->list), 2, reply->element[i]->len};
        client_send(harvest->client, 4, argv, lengths);
    }
    for (size_t i = 0; i < reply->elements; i++)
        freeReplyObject(client_take(harvest->client)); /* one that was lost is read again */
}

bool harvest_take(struct harvest *harvest, size_t *taken)
{
    *taken = 0;
    redisReply *reply =
        client_ask(harvest->client, "LRANGE", harvest->list, BATCH_TEXT, "-1", NULL);
    if (!reply)
        return false;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0) {
        for (size_t i = reply->elements; i-- > 0;) /* the oldest is the last */
            if (reply->element[i]->type == REDIS_REPLY_STRING)
                hand_out(harvest, reply->element[i]->str);
        take_away(harvest, reply);
        *taken = reply->elements;
    }
    freeReplyObject(reply);
    return true;
}

void harvest_clear(struct harvest *harvest)
{
    free(harvest->seen);
    harvest->seen = NULL;
}
