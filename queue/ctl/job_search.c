#include "queue/ctl/job_search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/ctl/show.h"

/* Limits of a search: 10,000 jobs cost Redis about 20 ms, in pieces of 0.2 ms. */
#define JOBS_MAX  10000
#define BYTES_MAX (64u << 20)
#define PIECE     100

struct search {
    struct client *client;
    const char *ns, *id;
    size_t jobs, bytes;
    bool found, failed; /* failed: Redis did not answer, or refused */
};

static bool is_over(const struct search *search)
{
    return search->found || search->failed || search->jobs >= JOBS_MAX ||
           search->bytes >= BYTES_MAX;
}

/* strstr skips most jobs without parsing them. It misses an id that JSON escapes, so a job with a
 * backslash is parsed. */
static void check_job(struct search *search, const redisReply *text)
{
    if (!text || text->type != REDIS_REPLY_STRING)
        return;
    search->bytes += text->len;
    if (!strstr(text->str, search->id) && !strchr(text->str, '\\'))
        return;
    cJSON *job = cJSON_Parse(text->str);
    search->found = search->found || strcmp(show_text(job, "id"), search->id) == 0;
    cJSON_Delete(job);
}

/* Reads jobs by their numbers. All commands are sent before the first reply is awaited. */
static void check_numbers(struct search *search, const char *const *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        client_send(search->client, "HGET %s:job:%s raw", search->ns, numbers[i]);
    for (size_t i = 0; i < count; i++) {
        redisReply *reply = client_take(search->client);
        search->failed = search->failed || !reply; /* a key that is no hash is no job */
        check_job(search, reply);
        freeReplyObject(reply);
    }
}

/* Entries are jobs, numbers of jobs (in NS:jobs with a leading @), or fences, which mark cancels
 * (PROTOCOL.md) and are skipped. */
static void check_entries(struct search *search, const redisReply *reply, bool are_numbers)
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
            check_job(search, entry);
        else if (entry->str[1] >= '0' && entry->str[1] <= '9')
            numbers[count++] = entry->str + 1;
    }
    check_numbers(search, numbers, count);
}

/* Reads from the end that daemons take from. New jobs arrive at the other end. */
static void search_list(struct search *search, const char *command, const char *name,
                        bool are_numbers)
{
    size_t got = PIECE;
    for (long from = 0; got == PIECE && !is_over(search); from += PIECE) {
        redisReply *reply = client_ask(search->client, "%s %s:%s %ld %ld", command, search->ns,
                                       name, -from - PIECE, -from - 1);
        search->failed = !reply;
        got = reply && reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
        search->jobs += got;
        if (got > 0)
            check_entries(search, reply, are_numbers);
        freeReplyObject(reply);
    }
}

enum job_search_result job_search(struct client *client, const char *ns, const char *id)
{
    struct search search = {.client = client, .ns = ns, .id = id};
    /* The order of a job's life: a job that a daemon takes meanwhile is found among the leases. */
    search_list(&search, "LRANGE", "jobs", false);
    search_list(&search, "ZRANGE", "delayed", true);
    search_list(&search, "LRANGE", "alone", true);
    search_list(&search, "ZRANGE", "lease", true);
    return search.found       ? JOB_SEARCH_FOUND
           : is_over(&search) ? JOB_SEARCH_UNKNOWN
                              : JOB_SEARCH_NONE;
}
