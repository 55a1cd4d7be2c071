/* cancel.c - gpuimgctl cancel: cancels jobs by id. */
#include <stdio.h>
#include <string.h>

#include "conf/limits.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/show.h"
#include "queue/redis/script.h"

/* Limits of a search. 10,000 jobs cost Redis about 20 ms; each command takes at most 0.2 ms. */
#define JOBS_MAX  10000
#define BYTES_MAX (64u << 20)
#define PIECE     100

/* ---- search -------------------------------------------------------------------------------- */

/* The queue has no index of ids, so the search reads the jobs themselves, up to a limit. It reads
 * PIECE jobs at a time, and jobs may move to other lists meanwhile. */
enum search_result {
    SEARCH_NONE, /* all jobs were read; none has the id */
    SEARCH_FOUND,
    SEARCH_UNKNOWN /* too many jobs to read, or Redis refused to read them */
};

struct search {
    struct ctl *ctl;
    const char *ns, *id;
    size_t jobs, bytes;
    bool found, failed; /* failed: Redis did not answer, or refused */
};

static bool is_over(const struct search *search)
{
    return search->found || search->failed || search->jobs >= JOBS_MAX ||
           search->bytes >= BYTES_MAX;
}

/* Checks one job. strstr shows for most jobs that parsing is not necessary. It does not find an id
 * that JSON has escaped, so a job with a backslash is parsed. */
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
        client_send(search->ctl->client, "HGET %s:job:%s raw", search->ns, numbers[i]);
    for (size_t i = 0; i < count; i++) {
        redisReply *reply = client_take(search->ctl->client);
        search->failed = search->failed || !reply; /* a key that is no hash is no job */
        check_job(search, reply);
        freeReplyObject(reply);
    }
}

/* Checks the jobs of some entries. are_numbers: the entries are job numbers. Else an entry is a
 * job, an @ and a job number, or a fence of a cancel (PROTOCOL.md), which is skipped. */
static void check_entries(struct search *search, const redisReply *reply, bool are_numbers)
{
    const char *numbers[PIECE];
    size_t count = 0;
    for (size_t i = 0; i < reply->elements && count < PIECE; i++) {
        const redisReply *entry = reply->element[i];
        if (entry->type == REDIS_REPLY_STRING && !are_numbers && entry->str[0] != '@')
            check_job(search, entry);
        else if (entry->type == REDIS_REPLY_STRING &&
                 (are_numbers || (entry->str[1] >= '0' && entry->str[1] <= '9')))
            numbers[count++] = entry->str + !are_numbers;
    }
    check_numbers(search, numbers, count);
}

/* Searches a list or sorted set from its end, where daemons take jobs. Entries that are added at
 * the other end do not move the rest. */
static void search_list(struct search *search, const char *command, const char *name,
                        bool are_numbers)
{
    size_t got = PIECE;
    for (long from = 0; got == PIECE && !is_over(search); from += PIECE) {
        redisReply *reply = client_ask(search->ctl->client, "%s %s:%s %ld %ld", command, search->ns,
                                       name, -from - PIECE, -from - 1);
        search->failed = !reply;
        got = reply && reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
        search->jobs += got;
        if (got > 0)
            check_entries(search, reply, are_numbers);
        freeReplyObject(reply);
    }
}

static enum search_result search_jobs(struct ctl *ctl, const char *id)
{
    struct search search = {.ctl = ctl, .ns = ctl->ns, .id = id};
    char name[sizeof "jobs:" + 11]; /* an int has at most 11 characters */
    /* The leases come last, so that a job that a daemon takes meanwhile is found there. */
    search_list(&search, "LRANGE", "jobs", false);
    for (int i = 0; i < JOB_PRIORITIES; i++) {
        snprintf(name, sizeof name, "jobs:%d", i);
        search_list(&search, "LRANGE", name, false);
    }
    search_list(&search, "ZRANGE", "delayed", true);
    search_list(&search, "LRANGE", "alone", true);
    search_list(&search, "ZRANGE", "lease", true);
    return search.found ? SEARCH_FOUND : is_over(&search) ? SEARCH_UNKNOWN : SEARCH_NONE;
}

/* ---- cancel -------------------------------------------------------------------------------- */

static const char *sentence(enum search_result found, bool ended)
{
    if (found == SEARCH_FOUND)
        return "all waiting and running jobs with this id are cancelled";
    if (found == SEARCH_UNKNOWN)
        return "every job with this id that was sent so far is cancelled, if there is one: not all "
               "waiting and running jobs could be searched";
    return ended ? "no job with this id waits or runs, so none is cancelled"
                 : "no job with this id waits or runs, and no result is stored; the cancel still "
                   "applies to jobs that were sent before it";
}

static int say(struct ctl *ctl, const char *id, enum search_result found, const char *kept)
{
    cJSON *result = kept ? cJSON_Parse(kept) : NULL;
    int status = found == SEARCH_NONE && !kept ? CTL_FAILED : CTL_OK;
    if (ctl->json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "cancelled", id);
        ctl_add_shard(ctl, json);
        if (found == SEARCH_UNKNOWN)
            cJSON_AddNullToObject(json, "found");
        else
            cJSON_AddBoolToObject(json, "found", found == SEARCH_FOUND);
        if (!result || !cJSON_AddItemReferenceToObject(json, "result", result))
            cJSON_AddNullToObject(json, "result");
        ctl_print_json(ctl, json);
    } else {
        char word[SHOW_BYTES];
        out_put("%s: %s", id, sentence(found, kept != NULL));
        if (result)
            out_put("; an earlier one has ended (%s)",
                    show_word(result, "status", word, sizeof word));
        out_end();
    }
    cJSON_Delete(result);
    return status;
}

static int say_away(const struct ctl *ctl, const char *id)
{
    ctl_say("%s: not cancelled: its shard, %u, is away", id, ctl->shard->index);
    return CTL_UNAVAILABLE;
}

/* Cancels the jobs with an id. The script replies with the stored result of the id, or nil. */
static int cancel(struct ctl *ctl, const char *id)
{
    if (!ctl_use(ctl, ctl_shard_of(ctl, id)))
        return say_away(ctl, id);
    const char *ns = ctl->ns, *kept = NULL;
    /* Search first: a cancelled job may disappear at once. */
    enum search_result found = search_jobs(ctl, id);
    redisReply *reply = ctl_ask(ctl, "EVAL %s 6 %s:jobs %s:cancel %s:woken %s:waits:%s "
                                "%s:result:%s %s:never %s", script_text(SCRIPT_ID_CANCEL), ns, ns,
                                ns, ns, id, ns, id, ns, id);
    if (!reply)
        return say_away(ctl, id);
    if (script_reply_is_array(reply, 1) && reply->element[0]->type == REDIS_REPLY_STRING)
        kept = reply->element[0]->str;
    int status = say(ctl, id, found, kept);
    freeReplyObject(reply);
    return status;
}

int ctl_cancel(struct ctl *ctl, int count, char **operands)
{
    int worst = CTL_OK;
    if (count == 0)
        ctl_usage(ctl, "ID is missing: give the id of the job to cancel");
    for (int i = 0; i < count; i++)
        if (!*operands[i] || strlen(operands[i]) > JOB_ID_BYTES_MAX)
            ctl_usage(ctl, "an id has %zu bytes; it must have 1 to %d", strlen(operands[i]),
                      JOB_ID_BYTES_MAX);
    ctl_connect_for(ctl, count, operands);
    for (int i = 0; i < count; i++) {
        int status = cancel(ctl, operands[i]);
        worst = status > worst ? status : worst;
    }
    return worst;
}
