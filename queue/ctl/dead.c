/* dead.c - gpuimgctl dead: lists, shows, retries and drops dead jobs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conf/text.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/show.h"
#include "queue/redis/script.h"

/* Jobs per LRANGE: the list may hold 100,000 jobs of 64 KiB. */
#define PIECE 100
/* Jobs per call with their errors: Redis computes a digest of each job, 64 KiB in 0.1 ms. */
#define ERRORS_PIECE 20

const struct ctl_option ctl_dead_options[] = {
    {"all", 'a', NULL, "retry, drop: every dead job"},
    {"limit", 'n', "COUNT", "list: show at most COUNT jobs (default 50)"},
    {0}};

struct dead {
    struct ctl *ctl;
    struct client *client;
    const char *ns;
    bool whole; /* print everything known about each job */
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

/* The record of a job's death. A job that an older daemon gave up has none: its stored result is
 * used instead, if it still exists. NULL: neither. */
static cJSON *death_of(struct dead *dead, const cJSON *job, const char *record)
{
    const char *id = show_text(job, "id");
    cJSON *death = cJSON_Parse(record);
    if (death || !*id)
        return death;
    redisReply *reply = client_ask(dead->client, "GET %s:result:%s", dead->ns, id);
    death = reply && reply->type == REDIS_REPLY_STRING ? cJSON_Parse(reply->str) : NULL;
    freeReplyObject(reply);
    return death;
}

/* One entry of the list as JSON: the job, or its text if that is not JSON. */
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

static int print_json(long long number, cJSON *job, const char *text, const cJSON *death)
{
    static const char *const members[] = {"input", "error", "attempt", "daemon", "time"};
    cJSON *line = job_json(number, job, text);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        cJSON *member = cJSON_GetObjectItemCaseSensitive(death, members[i]);
        if (member)
            cJSON_AddItemReferenceToObject(line, members[i], member);
    }
    return ctl_print_json(line);
}

static void put_error(const cJSON *death)
{
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(death, "error");
    if (error)
        out_line("%s (%s)", show_text(error, "message"), show_text(error, "code"));
    else
        out_line("see the daemon's log");
}

/* Prints everything known about one job, one line per fact. */
static void print_whole(long long number, const cJSON *job, const char *text, const cJSON *death)
{
    char date[40] = "";
    time_t died = (time_t)show_number(death, "time");
    struct tm utc;
    if (died > 0 && gmtime_r(&died, &utc))
        strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &utc);
    out_put("#%lld", number);
    if (*show_text(job, "id"))
        out_put(" %s", show_text(job, "id"));
    out_end();
    out_line("input    %s", job ? input_of(job) : "");
    out_put("error    ");
    put_error(death);
    if (*date)
        out_line("died     %s", date);
    if (death)
        out_line("attempt  %.0f, by %s, as job %.0f", show_number(death, "attempt"),
                 show_text(death, "daemon"), show_number(death, "job"));
    out_line("job      %s", text);
}

/* record: the record of its death, or "". */
static int print_one(struct dead *dead, long long number, const char *text, const char *record)
{
    int status = CTL_OK;
    cJSON *job = cJSON_Parse(text), *death = death_of(dead, job, record);
    char shown[24];
    snprintf(shown, sizeof shown, "#%lld", number);
    if (dead->ctl->json) {
        status = print_json(number, job, text, death);
    } else if (dead->whole) {
        print_whole(number, job, text, death);
    } else {
        out_put("%5s  %-16s %s: ", shown, show_text(job, "id"), job ? input_of(job) : text);
        put_error(death);
    }
    cJSON_Delete(death);
    cJSON_Delete(job);
    return status;
}

/* The texts of up to ERRORS_PIECE entries, each followed by its record. NULL: no reply. */
static redisReply *piece_with_errors(struct dead *dead, long long from, long long count)
{
    return client_ask(dead->client, "EVAL %s 2 %s:dead %s:never %lld %lld",
                      script_text(SCRIPT_ID_DEAD), dead->ns, dead->ns, from,
                      count < ERRORS_PIECE ? count : ERRORS_PIECE);
}

static size_t jobs_in(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY ? reply->elements / 2 : 0;
}

static int list(struct dead *dead)
{
    double limit = 50;
    long long number = 0, count;
    int status = CTL_OK;
    if (!ctl_number(dead->ctl, "limit", 1, 1e9, &limit)) /* uncovered: slip */
        return CTL_USAGE;
    if (!client_integer(dead->client, &count, "LLEN %s:dead", dead->ns)) /* uncovered: gone */
        return ctl_no_answer(dead->ctl);
    while (number < count && number < (long long)limit && status == CTL_OK) {
        redisReply *reply = piece_with_errors(dead, number, (long long)limit - number);
        if (!reply) /* uncovered: gone */
            return ctl_no_answer(dead->ctl);
        size_t got = jobs_in(reply);
        for (size_t i = 0; i < got && status == CTL_OK; i++)
            status = print_one(dead, ++number, reply->element[2 * i]->str,
                               reply->element[2 * i + 1]->str);
        freeReplyObject(reply);
        if (got == 0) /* uncovered: gone */
            break;
    }
    if (!dead->ctl->json && count == 0)
        out_line("there are no dead jobs");
    else if (!dead->ctl->json && number < count)
        out_line("and %lld more (--limit=COUNT)", count - number);
    return status;
}

/* ---- finding ------------------------------------------------------------------------------- */

/* A dead job that the user selected. */
struct choice {
    long long number;  /* its number in the list when it was found */
    redisReply *entry; /* its text; NULL: not found, and reported */
};

/* The number in "#12"; 0 for an id. */
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
        ctl_say("no dead job has the number %s; see gpuimgctl dead list", name);
    else if (strspn(name, "0123456789") == strlen(name))
        ctl_say("no dead job has the id %s; for number %s of the list write '#%s', in quotes", name,
                name, name);
    else
        ctl_say("no dead job has the id %s; see gpuimgctl dead list", name);
    return CTL_FAILED;
}

/* Finds a dead job by "#" and its number, or by its id. If several have the id, takes the one that
 * died last. */
static struct choice find(struct dead *dead, const char *name, int *status)
{
    long long number = number_of(name);
    struct choice choice = {0};
    size_t got = PIECE;
    *status = CTL_OK;
    for (long long from = number ? number - 1 : 0; !choice.entry && got == PIECE; from += PIECE) {
        redisReply *reply = client_ask(dead->client, "LRANGE %s:dead %lld %lld", dead->ns, from,
                                       number ? from : from + PIECE - 1);
        if (!reply) { /* uncovered: gone */
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

/* ---- show ---------------------------------------------------------------------------------- */

/* Jobs that died since the choice was found come before it in the list. */
static int show_one(struct dead *dead, const struct choice *choice)
{
    redisReply *reply = piece_with_errors(dead, choice->number - 1, ERRORS_PIECE);
    if (!reply) /* uncovered: gone */
        return ctl_no_answer(dead->ctl);
    const char *record = "";
    for (size_t i = 0; i < jobs_in(reply) && !*record; i++)
        if (strcmp(reply->element[2 * i]->str, choice->entry->str) == 0)
            record = reply->element[2 * i + 1]->str;
    int status = print_one(dead, choice->number, choice->entry->str, record);
    freeReplyObject(reply);
    return status;
}

static int show(struct dead *dead, int count, char **names)
{
    int worst = CTL_OK;
    dead->whole = true;
    for (int i = 0; i < count && worst != CTL_UNAVAILABLE; i++) {
        int status;
        struct choice choice = find(dead, names[i], &status);
        if (choice.entry)
            status = show_one(dead, &choice);
        freeReplyObject(choice.entry);
        worst = status > worst ? status : worst;
    }
    return worst;
}

/* ---- retry and drop ------------------------------------------------------------------------ */

/* Moves the oldest dead job to the end of the queue. false: no reply. */
static bool move_oldest(struct dead *dead, bool *moved)
{
    redisReply *reply =
        client_ask(dead->client, "LMOVE %s:dead %s:jobs RIGHT LEFT", dead->ns, dead->ns);
    *moved = reply && reply->type == REDIS_REPLY_STRING;
    freeReplyObject(reply);
    return reply != NULL;
}

/* Finds the job by its text, because its number changes when another job dies. */
static int act_on(struct dead *dead, const struct choice *choice, bool retry)
{
    const char *script = script_text(SCRIPT_ID_REVIVE);
    const char *argv[] = {"EVAL", script, "3", dead->list, dead->jobs, dead->never,
                          choice->entry->str, retry ? "1" : "0"};
    size_t lengths[] = {4, strlen(script), 1, strlen(dead->list), strlen(dead->jobs),
                        strlen(dead->never), choice->entry->len, 1};
    client_send_words(dead->client, 8, argv, lengths);
    redisReply *reply = client_take(dead->client);
    int status = CTL_OK;
    if (!client_reply_ok(dead->client, reply, "EVAL")) { /* uncovered: gone */
        status = ctl_no_answer(dead->ctl);
    } else if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 1) {
        ctl_say("job #%lld is no longer in the list", choice->number);
        status = CTL_FAILED;
    }
    freeReplyObject(reply);
    return status;
}

/* Reports one job: as a line, or in the array `jobs` if that is not NULL. */
static void say_one(const struct choice *choice, bool retry, cJSON *jobs)
{
    cJSON *job = cJSON_Parse(choice->entry->str);
    if (jobs) {
        cJSON_AddItemToArray(jobs, job_json(choice->number, job, choice->entry->str));
    } else {
        out_put("%s #%lld", retry ? "retried" : "dropped", choice->number);
        if (*show_text(job, "id"))
            out_put(" %s", show_text(job, "id"));
        out_line(": %s", job ? input_of(job) : choice->entry->str);
    }
    cJSON_Delete(job);
}

/* Prints the number of jobs. jobs: the array of reported jobs, or NULL; this frees it. */
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
             retry ? "retried" : "dropped");
    return CTL_OK;
}

static int act_on_all(struct dead *dead, bool retry)
{
    long long count = 0, done = 0;
    bool moved = true;
    if (!client_integer(dead->client, &count, "LLEN %s:dead", dead->ns) ||
        (!retry && count > 0 &&
         !client_integer(dead->client, &done, "DEL %s:dead %s:dead:errors", dead->ns, dead->ns)))
        return ctl_no_answer(dead->ctl); /* uncovered: gone */
    if (!retry)
        return say_count(dead, count, false, NULL);
    while (done < count && moved) { /* jobs that die meanwhile stay */
        if (!move_oldest(dead, &moved)) /* uncovered: gone */
            return ctl_no_answer(dead->ctl);
        done += moved;
    }
    return say_count(dead, done, true, NULL);
}

/* Finds all jobs before it moves the first one, which changes the numbers of the others. */
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
    static const char *const verbs[] = {"list", "show", "retry", "drop"};
    struct dead dead = {.ctl = ctl, .ns = ctl->options.namespace};
    const char *verb = count > 0 ? operands[0] : "list";
    bool retry = strcmp(verb, "retry") == 0, drop = strcmp(verb, "drop") == 0;
    bool all = ctl_value(ctl, "all") != NULL, listing = strcmp(verb, "list") == 0;
    bool showing = strcmp(verb, "show") == 0;
    if (!retry && !drop && !listing && !showing) {
        const char *near = text_nearest(verb, verbs, 4);
        return ctl_usage(ctl, "dead takes list, show, retry or drop, not \"%s\"%s%s%s", verb,
                         near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    if (listing && count > 1) /* uncovered: slip */
        return ctl_usage(ctl, "dead list takes no operand, but got \"%s\"", operands[1]);
    if (showing && (all || count == 1))
        return ctl_usage(ctl, "dead show needs ids, or numbers of the list such as '#1'%s",
                         all ? "; it does not take --all" : "");
    if (!listing && all == (count > 1))
        return ctl_usage(ctl, all ? "--all already selects every dead job; drop the operand \"%s\""
                                  : "dead %s needs ids, numbers of the list such as '#1' (in "
                                    "quotes: a bare # begins a comment in a shell), or --all",
                         all ? operands[1] : verb);
    for (int i = 1; i < count; i++)
        if (!*operands[i]) /* from an unset variable; it would match jobs without an id */
            return ctl_usage(ctl, "a number or id is empty; give an id or a number such as '#1'");
    int status = ctl_connect(ctl);
    if (status)
        return status;
    dead.client = ctl->client;
    snprintf(dead.list, sizeof dead.list, "%s:dead", dead.ns);
    snprintf(dead.jobs, sizeof dead.jobs, "%s:jobs", dead.ns);
    snprintf(dead.never, sizeof dead.never, "%s:never", dead.ns);
    if (listing)
        return list(&dead);
    if (showing)
        return show(&dead, count - 1, operands + 1);
    return all ? act_on_all(&dead, retry) : act_on_some(&dead, count - 1, operands + 1, retry);
}
