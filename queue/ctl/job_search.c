#include "queue/ctl/job_search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/ctl/show.h"

/* So much is read at most: 10,000 jobs take Redis some 20 ms, in pieces of 0.2 ms. */
#define JOBS_MAX  10000
#define BYTES_MAX (64u << 20)
#define PIECE     100
#define KEY_BYTES 200

struct look {
    struct client *client;
    const char *ns, *id;
    size_t jobs, bytes;
    bool found, failed; /* failed: Redis did not answer, or refused */
};

static bool is_over(const struct look *look)
{
    return look->found || look->failed || look->jobs >= JOBS_MAX || look->bytes >= BYTES_MAX;
}

/* An id that JSON escapes is not found as text. */
static void look_at(struct look *look, const redisReply *text)
{
    if (!text || text->type != REDIS_REPLY_STRING)
        return;
    look->bytes += text->len;
    if (!strstr(text->str, look->id) && !strchr(text->str, '\\'))
        return;
    cJSON *job = cJSON_Parse(text->str);
    look->found = look->found || strcmp(show_text(job, "id"), look->id) == 0;
    cJSON_Delete(job);
}

/* Jobs that have a number, by it; all questions go out before the first answer is awaited. */
static void look_at_numbers(struct look *look, const char *const *numbers, size_t count)
{
    char key[KEY_BYTES];
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%s:job:%.20s", look->ns, numbers[i]);
        const char *argv[] = {"HGET", key, "raw"};
        size_t lengths[] = {4, strlen(key), 3};
        client_send(look->client, 3, argv, lengths);
    }
    for (size_t i = 0; i < count; i++) {
        redisReply *reply = client_take(look->client);
        look->failed = look->failed || !reply; /* what is no hash is no job */
        look_at(look, reply);
        freeReplyObject(reply);
    }
}

/* Entries are jobs, numbers of jobs (in NS:jobs behind an @), or fences of cancels. */
static void look_at_entries(struct look *look, const redisReply *reply, bool are_numbers)
{
    const char *numbers[PIECE];
    size_t count = 0;
    for (size_t i = 0; i < reply->elements && count < PIECE; i++) {
        const redisReply *entry = reply->element[i];
        if (entry->type != REDIS_REPLY_STRING)
            continue;
        if (are_numbers)
            numbers[count++] = entry->str;
        else if (entry->str[0] != '@')
            look_at(look, entry);
        else if (entry->str[1] >= '0' && entry->str[1] <= '9')
            numbers[count++] = entry->str + 1;
    }
    look_at_numbers(look, numbers, count);
}

/* From the end that daemons take from: what is pushed meanwhile comes in at the other one. */
static void look_through(struct look *look, const char *command, const char *name,
                         bool are_numbers)
{
    char key[KEY_BYTES], first[24], last[24];
    size_t got = PIECE;
    snprintf(key, sizeof key, "%s:%s", look->ns, name);
    for (size_t from = 0; got == PIECE && !is_over(look); from += PIECE) {
        snprintf(first, sizeof first, "-%zu", from + PIECE);
        snprintf(last, sizeof last, "-%zu", from + 1);
        redisReply *reply = client_ask(look->client, command, key, first, last, NULL);
        look->failed = !reply;
        got = reply && reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
        look->jobs += got;
        if (got > 0)
            look_at_entries(look, reply, are_numbers);
        freeReplyObject(reply);
    }
}

enum sighting sighting_look(struct client *client, const char *ns, const char *id)
{
    struct look look = {.client = client, .ns = ns, .id = id};
    /* The way of a job: one that is taken meanwhile is seen among the leases. */
    look_through(&look, "LRANGE", "jobs", false);
    look_through(&look, "ZRANGE", "delayed", true);
    look_through(&look, "LRANGE", "alone", true);
    look_through(&look, "ZRANGE", "lease", true);
    return look.found ? SIGHTING_FOUND : is_over(&look) ? SIGHTING_UNKNOWN : SIGHTING_NONE;
}
