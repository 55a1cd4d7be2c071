/* dead.c - gpuimgctl dead: the jobs that were given up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* A member of the list: the job, or the text where that is no JSON. */
static cJSON *job_json(long long number, cJSON *job, const char *text)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "number", (double)number);
    if (job)
        cJSON_AddItemToObject(json, "job", cJSON_Duplicate(job, true));
    else
        cJSON_AddStringToObject(json, "text", text);
    return json;
}

static int print_one(struct dead *dead, long long number, const char *text)
{
    int status = CTL_OK;
    cJSON *job = cJSON_Parse(text);
    cJSON *result = result_of(dead, job);
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(result, "error");
    if (dead->ctl->json) {
        cJSON *line = job_json(number, job, text);
        if (error)
            cJSON_AddItemReferenceToObject(line, "error", (cJSON *)error);
        status = ctl_print_json(line);
    } else {
        char shown[24];
        snprintf(shown, sizeof shown, "#%lld", number);
        out_line("%5s  %-16s %s: %s", shown, show_text(job, "id"), job ? input_of(job) : text,
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

/* One that is to be tried again or dropped. */
struct choice {
    long long number;  /* in the list, when it was found */
    redisReply *entry; /* its text; NULL: it is not there, which was said */
};

/* By its text: its number changes when another one dies. */
static int act_on(struct dead *dead, const struct choice *choice, bool retry)
{
    const char *script = script_text(SCRIPT_ID_REVIVE);
    const char *argv[] = {"EVAL", script, "3", dead->list, dead->jobs, dead->never,
                          choice->entry->str, retry ? "1" : "0"};
    size_t lengths[] = {4, strlen(script), 1, strlen(dead->list), strlen(dead->jobs),
                        strlen(dead->never), choice->entry->len, 1};
    client_send(dead->ctl->client, 8, argv, lengths);
    redisReply *reply = client_take(dead->ctl->client);
    int status = CTL_OK;
    if (!client_good(dead->ctl->client, reply, "EVAL")) {
        status = ctl_no_answer(dead->ctl);
    } else if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 1) {
        ctl_say("number %lld is not in the list any more", choice->number);
        status = CTL_FAILED;
    }
    freeReplyObject(reply);
    return status;
}

/* The number in "#12"; 0: it is an id. */
static long long number_of(const char *name)
{
    size_t digits = *name == '#' ? strspn(name + 1, "0123456789") : 0;
    return digits > 0 && digits < 18 && !name[1 + digits] ? strtoll(name + 1, NULL, 10) : 0;
}

static bool is_id_of(const redisReply *entry, const char *id)
{
    cJSON *job = cJSON_Parse(entry->str);
    bool is = strcmp(show_text(job, "id"), id) == 0;
    cJSON_Delete(job);
    return is;
}

static int say_missing(const char *name, bool by_number)
{
    if (by_number)
        ctl_say("no dead job has the number %s; gpuimgctl dead list shows them", name);
    else if (strspn(name, "0123456789") == strlen(name))
        ctl_say("no dead job has the id %s; number %s of the list is '#%s', in quotes", name, name,
                name);
    else
        ctl_say("no dead job has the id %s; gpuimgctl dead list shows them", name);
    return CTL_FAILED;
}

/* By "#" and its number, or by its id: the one of several that died last. */
static struct choice find(struct dead *dead, const char *name, int *status)
{
    long long number = number_of(name);
    struct choice choice = {0};
    size_t got = PIECE;
    *status = CTL_OK;
    for (long long from = number ? number - 1 : 0; !choice.entry && got == PIECE; from += PIECE) {
        redisReply *reply = piece(dead, from, number ? 1 : PIECE);
        if (!reply) {
            *status = ctl_no_answer(dead->ctl);
            return choice;
        }
        got = reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
        for (size_t i = 0; i < got && !choice.entry; i++)
            if (number || is_id_of(reply->element[i], name)) {
                choice = (struct choice){from + (long long)i + 1, reply->element[i]};
                reply->element[i] = NULL;
            }
        freeReplyObject(reply);
    }
    if (!choice.entry)
        *status = say_missing(name, number != 0);
    return choice;
}

/* Names it on a line, or, jobs not NULL, as a member of that. */
static void say_one(const struct choice *choice, bool retry, cJSON *jobs)
{
    cJSON *job = cJSON_Parse(choice->entry->str);
    if (jobs) {
        cJSON_AddItemToArray(jobs, job_json(choice->number, job, choice->entry->str));
    } else {
        out_put("%s #%lld", retry ? "tried again" : "dropped", choice->number);
        if (*show_text(job, "id"))
            out_put(" %s", show_text(job, "id"));
        out_line(": %s", job ? input_of(job) : choice->entry->str);
    }
    cJSON_Delete(job);
}

/* jobs: the list of those that were named, or NULL; taken over. */
static int say_count(struct dead *dead, long long count, bool retry, cJSON *jobs)
{
    char text[SHOW_BYTES];
    if (dead->ctl->json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddNumberToObject(json, retry ? "retried" : "dropped", (double)count);
        if (jobs && !cJSON_AddItemToObject(json, "jobs", jobs))
            cJSON_Delete(jobs);
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
        return say_count(dead, count, false, NULL);
    while (done < count && moved) { /* not those that die meanwhile */
        if (!move_oldest(dead, &moved))
            return ctl_no_answer(dead->ctl);
        done += moved;
    }
    return say_count(dead, done, true, NULL);
}

/* All are found before the first is moved, which changes the numbers of the others. */
static int act_on_some(struct dead *dead, int count, char **names, bool retry)
{
    struct choice *choices = calloc((size_t)count, sizeof *choices);
    cJSON *jobs = dead->ctl->json ? cJSON_CreateArray() : NULL;
    int worst = choices ? CTL_OK : CTL_FAULT, done = 0;
    for (int i = 0; choices && i < count && worst != CTL_UNAVAILABLE; i++) {
        int status;
        choices[i] = find(dead, names[i], &status);
        worst = status > worst ? status : worst;
    }
    for (int i = 0; choices && i < count && worst != CTL_UNAVAILABLE; i++) {
        if (!choices[i].entry)
            continue;
        int status = act_on(dead, &choices[i], retry);
        if (status == CTL_OK)
            say_one(&choices[i], retry, jobs);
        done += status == CTL_OK;
        worst = status > worst ? status : worst;
    }
    for (int i = 0; choices && i < count; i++)
        freeReplyObject(choices[i].entry);
    free(choices);
    if (worst != CTL_UNAVAILABLE && (done > 0 || dead->ctl->json))
        say_count(dead, done, retry, jobs);
    else
        cJSON_Delete(jobs);
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
                                  : "dead %s needs ids, numbers of the list such as '#1' (in "
                                    "quotes: a bare # begins a comment in a shell), or --all",
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
