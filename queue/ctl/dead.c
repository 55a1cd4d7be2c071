/* dead.c - gpuimgctl dead: the jobs that were given up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/limits.h"
#include "conf/text.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/show.h"
#include "queue/script.h"

/* The list is read in pieces: it may hold 100,000 jobs of 64 KiB. */
#define PIECE 100

const struct ctl_option ctl_dead_options[] = {
    {"all", 'a', NULL, "retry, drop: every dead job"},
    {"limit", 'n', "COUNT", "list: at most so many (default 50)"},
    {0}};

struct dead {
    struct ctl *ctl;
    char list[160], jobs[160], never[160];
};

/* ---- list ---------------------------------------------------------------------------------- */

static const char *input_of(const cJSON *job)
{
    const cJSON *input = cJSON_GetObjectItemCaseSensitive(job, "input");
    if (cJSON_IsString(input))
        return input->valuestring;
    const char *path = show_text(input, "path");
    return *path ? path : show_text(input, "key");
}

/* Why it died stands in its result, where that is still kept. */
static cJSON *result_of(struct dead *dead, const cJSON *job)
{
    char *key = NULL;
    const char *id = show_text(job, "id");
    if (!*id || asprintf(&key, "%s:result:%s", dead->ctl->options.namespace, id) < 0)
        return NULL;
    redisReply *reply = client_ask(dead->ctl->client, "GET", key, NULL);
    cJSON *result = reply && reply->type == REDIS_REPLY_STRING ? cJSON_Parse(reply->str) : NULL;
    freeReplyObject(reply);
    free(key);
    return result;
}

static int print_one(struct dead *dead, long long number, const char *text)
{
    int status = CTL_OK;
    cJSON *job = cJSON_Parse(text);
    cJSON *result = result_of(dead, job);
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(result, "error");
    if (dead->ctl->json) {
        cJSON *line = cJSON_CreateObject();
        cJSON_AddNumberToObject(line, "number", (double)number);
        if (job)
            cJSON_AddItemReferenceToObject(line, "job", job);
        else
            cJSON_AddStringToObject(line, "text", text);
        if (error)
            cJSON_AddItemReferenceToObject(line, "error", (cJSON *)error);
        status = ctl_print_json(line);
    } else {
        char id[JOB_ID_BYTES_MAX + 1];
        out_line("%4lld  %-16s %s: %s", number, show_word(job, "id", id, sizeof id),
                 job ? input_of(job) : text,
                 error ? show_text(error, "message") : "the daemon's log says why");
    }
    cJSON_Delete(result);
    cJSON_Delete(job);
    return status;
}

/* Entries from..from + PIECE - 1 as a reply; NULL: no answer. */
static redisReply *piece(struct dead *dead, long long from, long long count)
{
    char first[24], last[24];
    snprintf(first, sizeof first, "%lld", from);
    snprintf(last, sizeof last, "%lld", from + (count < PIECE ? count : PIECE) - 1);
    return client_ask(dead->ctl->client, "LRANGE", dead->list, first, last, NULL);
}

static int list(struct dead *dead)
{
    double limit = 50;
    long long number = 0, count;
    int status = CTL_OK;
    if (!ctl_number(dead->ctl, "limit", 1, 1e9, &limit))
        return CTL_USAGE;
    if (!client_integer(dead->ctl->client, &count, "LLEN", dead->list, NULL))
        return ctl_no_answer(dead->ctl);
    while (number < count && number < (long long)limit && status == CTL_OK) {
        redisReply *reply = piece(dead, number, (long long)limit - number);
        if (!reply)
            return ctl_no_answer(dead->ctl);
        size_t got = reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
        for (size_t i = 0; i < got && status == CTL_OK; i++)
            status = print_one(dead, ++number, reply->element[i]->str);
        freeReplyObject(reply);
        if (got == 0)
            break;
    }
    if (!dead->ctl->json && count == 0)
        out_line("no job is dead");
    else if (!dead->ctl->json && number < count)
        out_line("and %lld more (--limit=COUNT)", count - number);
    return status;
}

/* ---- retry and drop ------------------------------------------------------------------------ */

/* Moves the oldest one behind all other jobs. false: no answer. */
static bool move_oldest(struct dead *dead, bool *moved)
{
    redisReply *reply = client_ask(dead->ctl->client, "LMOVE", dead->list, dead->jobs, "RIGHT",
                                   "LEFT", NULL);
    *moved = reply && reply->type == REDIS_REPLY_STRING;
    freeReplyObject(reply);
    return reply != NULL;
}

/* One by its text: its number changes when another one dies. */
static int act_on(struct dead *dead, const char *text, size_t length, bool retry)
{
    const char *script = script_text(SCRIPT_ID_REVIVE);
    const char *argv[] = {"EVAL", script, "3", dead->list, dead->jobs, dead->never, text,
                          retry ? "1" : "0"};
    size_t lengths[] = {4, strlen(script), 1, strlen(dead->list), strlen(dead->jobs),
                        strlen(dead->never), length, 1};
    client_send(dead->ctl->client, 8, argv, lengths);
    redisReply *reply = client_take(dead->ctl->client);
    int status = CTL_OK;
    if (!client_good(dead->ctl->client, reply, "EVAL"))
        status = ctl_no_answer(dead->ctl);
    else if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 1)
        status = CTL_FAILED; /* somebody else was quicker */
    freeReplyObject(reply);
    return status;
}

/* A number of the list, or an id. NULL: not there, said. */
static redisReply *find(struct dead *dead, const char *name, int *status)
{
    char *end;
    long long number = strtoll(name, &end, 10);
    redisReply *found = NULL;
    *status = CTL_OK;
    for (long long from = 0; !found; from += PIECE) {
        bool by_number = !*end && number > 0;
        redisReply *reply = piece(dead, by_number ? number - 1 : from, by_number ? 1 : PIECE);
        if (!reply) {
            *status = ctl_no_answer(dead->ctl);
            return NULL;
        }
        size_t got = reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
        for (size_t i = 0; i < got && !found; i++) {
            cJSON *job = by_number ? NULL : cJSON_Parse(reply->element[i]->str);
            if (by_number || strcmp(show_text(job, "id"), name) == 0) {
                found = reply->element[i];
                reply->element[i] = NULL;
            }
            cJSON_Delete(job);
        }
        freeReplyObject(reply);
        if (got < PIECE)
            break;
    }
    if (!found) {
        ctl_say("no dead job has the number or id %s", name);
        *status = CTL_FAILED;
    }
    return found;
}

static int say_count(struct dead *dead, long long count, bool retry)
{
    char text[SHOW_BYTES];
    if (dead->ctl->json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddNumberToObject(json, retry ? "retried" : "dropped", (double)count);
        return ctl_print_json(json);
    }
    out_line("%s dead %s %s", show_count((double)count, text), count == 1 ? "job" : "jobs",
             retry ? "tried again" : "dropped");
    return CTL_OK;
}

static int act_on_all(struct dead *dead, bool retry)
{
    long long count = 0, done = 0;
    bool moved = true;
    if (!client_integer(dead->ctl->client, &count, "LLEN", dead->list, NULL) ||
        (!retry && count > 0 && !client_integer(dead->ctl->client, &done, "DEL", dead->list, NULL)))
        return ctl_no_answer(dead->ctl);
    if (!retry)
        return say_count(dead, count, false);
    while (done < count && moved) { /* not those that die meanwhile */
        if (!move_oldest(dead, &moved))
            return ctl_no_answer(dead->ctl);
        done += moved;
    }
    return say_count(dead, done, true);
}

/* All are found before the first is moved, which changes the numbers of the others. */
static int act_on_some(struct dead *dead, int count, char **names, bool retry)
{
    redisReply **found = calloc((size_t)count, sizeof *found);
    int worst = found ? CTL_OK : CTL_FAULT, done = 0;
    for (int i = 0; found && i < count && worst != CTL_UNAVAILABLE; i++) {
        int status;
        found[i] = find(dead, names[i], &status);
        worst = status > worst ? status : worst;
    }
    for (int i = 0; found && i < count && worst != CTL_UNAVAILABLE; i++) {
        if (!found[i])
            continue;
        int status = act_on(dead, found[i]->str, found[i]->len, retry);
        done += status == CTL_OK;
        worst = status > worst ? status : worst;
    }
    for (int i = 0; found && i < count; i++)
        freeReplyObject(found[i]);
    free(found);
    if (worst != CTL_UNAVAILABLE && (done > 0 || dead->ctl->json))
        say_count(dead, done, retry);
    return worst;
}

int ctl_dead(struct ctl *ctl, int count, char **operands)
{
    static const char *const verbs[] = {"list", "retry", "drop"};
    struct dead dead = {.ctl = ctl};
    const char *verb = count > 0 ? operands[0] : "list";
    bool retry = strcmp(verb, "retry") == 0, drop = strcmp(verb, "drop") == 0;
    bool all = ctl_value(ctl, "all") != NULL, listing = strcmp(verb, "list") == 0;
    if (!retry && !drop && !listing) {
        const char *near = text_nearest(verb, verbs, 3);
        return ctl_usage(ctl, "dead has list, retry and drop, not \"%s\"%s%s%s", verb,
                         near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    if (listing && count > 1)
        return ctl_usage(ctl, "dead list takes no operand, here is \"%s\"", operands[1]);
    if (!listing && all == (count > 1))
        return ctl_usage(ctl, all ? "--all stands for every dead job; here is \"%s\" beside it"
                                  : "dead %s needs the numbers of the list, ids, or --all",
                         all ? operands[1] : verb);
    for (int i = 1; i < count; i++)
        if (!*operands[i]) /* an unset variable in a script, and many jobs have no id */
            return ctl_usage(ctl, "a number or id is empty");
    int status = ctl_connect(ctl);
    if (status)
        return status;
    snprintf(dead.list, sizeof dead.list, "%s:dead", ctl->options.namespace);
    snprintf(dead.jobs, sizeof dead.jobs, "%s:jobs", ctl->options.namespace);
    snprintf(dead.never, sizeof dead.never, "%s:never", ctl->options.namespace);
    if (listing)
        return list(&dead);
    return all ? act_on_all(&dead, retry) : act_on_some(&dead, count - 1, operands + 1, retry);
}
