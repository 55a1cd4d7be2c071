/* dead.c - gpuimgctl dead: lists, shows, retries and drops dead jobs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conf/mask.h"
#include "conf/text.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/show.h"
#include "queue/redis/script.h"

/* Jobs per LRANGE: the whole list may have 100,000 jobs of 64 KiB. */
#define PIECE 100
/* Jobs per call of the script DEAD: Redis computes a digest of each job, 0.1 ms for 64 KiB. */
#define ERRORS_PIECE 20

const struct ctl_option ctl_dead_options[] = {
    {"all", 'a', NULL, "retry, drop: every dead job"},
    {"limit", 'n', "COUNT", "list: show at most COUNT jobs of each shard (default 50)"},
    {0}};

static const char *const verbs[] = {"list", "show", "retry", "drop"};
enum verb { LIST, SHOW, RETRY, DROP, VERBS };

/* ---- list ---------------------------------------------------------------------------------- */

static const char *place_of(const cJSON *input)
{
    const char *path = show_text(input, "path"), *url = show_text(input, "url");
    return cJSON_IsString(input) ? input->valuestring
           : *path               ? path
           : *url                ? url
                                 : show_text(input, "key");
}

/* Returns the path, URL or key of a job's input, without secrets of a URL; only --json shows them.
 * Of many images, returns their archive or folder, or the first one and the number of the others.
 */
static const char *input_of(const cJSON *job)
{
    static char shown[JOB_URL_BYTES_MAX + 40];
    const cJSON *input = cJSON_GetObjectItemCaseSensitive(job, "input");
    const cJSON *inputs = cJSON_GetObjectItemCaseSensitive(job, "inputs");
    const cJSON *archive = cJSON_GetObjectItemCaseSensitive(inputs, "archive");
    int count = cJSON_IsArray(inputs) ? cJSON_GetArraySize(inputs) : 0;
    bool is_folder = cJSON_HasObjectItem(inputs, "folder");
    mask_copy(shown, JOB_URL_BYTES_MAX + 1,
              is_folder ? show_text(inputs, "folder")
                        : place_of(archive     ? archive
                                   : count > 0 ? inputs->child
                                               : input));
    size_t length = strlen(shown);
    if (count > 1)
        snprintf(shown + length, sizeof shown - length, " and %d more", count - 1);
    return shown;
}

/* Returns a job as it was sent, without secrets of URLs. Valid until the next call. */
static const char *masked_job(const char *text)
{
    static char *masked;
    free(masked);
    masked = strdup(text);
    if (masked)
        mask_text(masked, MASK_VALUE);
    return masked ? masked : "(no memory)";
}

static const char *id_of(const cJSON *job)
{
    static char shown[JOB_ID_BYTES_MAX + 1];
    return mask_copy(shown, sizeof shown, show_text(job, "id"));
}

/* Returns the error record of a dead job (PROTOCOL.md), parsed. If an older version of the daemon
 * wrote no record, returns the stored result of the job; NULL if there is none either. */
static cJSON *death_of(struct ctl *ctl, const cJSON *job, const char *record)
{
    const char *id = show_text(job, "id");
    cJSON *death = cJSON_Parse(record);
    if (death || !*id)
        return death;
    redisReply *reply = client_ask(ctl->client, "GET %s:result:%s", ctl->ns, id);
    death = reply && reply->type == REDIS_REPLY_STRING ? cJSON_Parse(reply->str) : NULL;
    freeReplyObject(reply);
    return death;
}

/* Writes "#12", or with several shards "#2:12". */
static const char *show_position(const struct ctl *ctl, long long number, char text[32])
{
    char shard[32];
    snprintf(text, 32, "#%s%lld", ctl_shard_text(ctl, "%u:", shard), number);
    return text;
}

/* Returns an entry of the list as JSON, with the job, or with its text if the text is not JSON. */
static cJSON *job_json(const struct ctl *ctl, long long number, cJSON *job, const char *text)
{
    cJSON *json = cJSON_CreateObject();
    ctl_add_shard(ctl, json);
    cJSON_AddNumberToObject(json, "number", (double)number);
    if (job)
        cJSON_AddItemToObject(json, "job", cJSON_Duplicate(job, true));
    else
        cJSON_AddStringToObject(json, "text", text);
    return json;
}

static void print_json(struct ctl *ctl, long long number, cJSON *job, const char *text,
                       const cJSON *death)
{
    static const char *const members[] = {"input", "error", "attempt", "daemon", "time"};
    cJSON *line = job_json(ctl, number, job, text);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        cJSON *member = cJSON_GetObjectItemCaseSensitive(death, members[i]);
        if (member)
            cJSON_AddItemReferenceToObject(line, members[i], member);
    }
    ctl_print_json(ctl, line);
}

static void put_error(const cJSON *death)
{
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(death, "error");
    if (error)
        out_line("%s (%s)", show_text(error, "message"), show_text(error, "code"));
    else
        out_line("see the daemon's log");
}

static void print_whole(const struct ctl *ctl, long long number, const cJSON *job, const char *text,
                        const cJSON *death)
{
    char date[40] = "", position[32], shard[32];
    time_t died = (time_t)show_number(death, "time");
    struct tm utc;
    if (died > 0 && gmtime_r(&died, &utc))
        strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &utc);
    out_put("%s", show_position(ctl, number, position));
    if (*show_text(job, "id"))
        out_put(" %s", id_of(job));
    out_end();
    out_line("input    %s", job ? input_of(job) : "");
    out_put("error    ");
    put_error(death);
    if (*date)
        out_line("died     %s", date);
    if (death)
        out_line("attempt  %.0f, by %s, as job %s%.0f", show_number(death, "attempt"),
                 show_text(death, "daemon"), ctl_shard_text(ctl, "%u:", shard),
                 show_number(death, "job"));
    out_line("job      %s", masked_job(text));
}

/* Prints one line for a job or, if whole, all that is known about it. record: its error record, or
 * "". */
static void print_one(struct ctl *ctl, long long number, const char *text, const char *record,
                      bool whole)
{
    cJSON *job = cJSON_Parse(text), *death = death_of(ctl, job, record);
    char position[32];
    if (ctl->json) {
        print_json(ctl, number, job, text, death);
    } else if (whole) {
        print_whole(ctl, number, job, text, death);
    } else {
        out_put("%5s  %-16s %s: ", show_position(ctl, number, position), id_of(job),
                job ? input_of(job) : masked_job(text));
        put_error(death);
    }
    cJSON_Delete(death);
    cJSON_Delete(job);
}

/* Returns an array with the texts of at most ERRORS_PIECE jobs, each followed by its error record.
 * NULL: the shard is away. */
static redisReply *piece_with_errors(struct ctl *ctl, long long from, long long count)
{
    const char *ns = ctl->ns;
    return ctl_ask(ctl, "EVAL %s 2 %s:dead %s:never %lld %lld", script_text(SCRIPT_ID_DEAD), ns, ns,
                   from, count < ERRORS_PIECE ? count : ERRORS_PIECE);
}

static size_t jobs_in(const redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_ARRAY ? reply->elements / 2 : 0;
}

/* Lists the dead jobs of the shard in use. Returns their number, and adds the number of those that
 * were not shown to *hidden. */
static long long list_shard(struct ctl *ctl, long long limit, long long *hidden)
{
    long long number = 0, count = ctl_integer(ctl, "LLEN", "dead");
    size_t got = 1;
    while (number < count && number < limit && got > 0) {
        redisReply *reply = piece_with_errors(ctl, number, limit - number);
        got = jobs_in(reply);
        for (size_t i = 0; i < got; i++)
            print_one(ctl, ++number, reply->element[2 * i]->str, reply->element[2 * i + 1]->str,
                      false);
        freeReplyObject(reply);
    }
    *hidden += count - number;
    return count;
}

static int list(struct ctl *ctl)
{
    long long limit = ctl_whole(ctl, "limit", 1, 1e9, 50);
    long long count = 0, hidden = 0;
    for (uint32_t at = 0; ctl_next(ctl, &at);)
        count += list_shard(ctl, limit, &hidden);
    int status = ctl_worst(ctl, CTL_OK);
    if (!ctl->json && count == 0)
        out_line("there are no dead jobs%s", status ? " in the shards that answer" : "");
    else if (!ctl->json && hidden > 0)
        out_line("and %lld more (--limit=COUNT)", hidden);
    return status;
}

/* ---- finding ------------------------------------------------------------------------------- */

/* A dead job that the user selected. */
struct choice {
    uint32_t shard;
    long long number;  /* its number in the list, from 1, when it was found */
    redisReply *entry; /* its text; NULL: not found, and the user was told */
};

/* Returns the number in "12"; 0 for another text. */
static long long read_number(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits < 18 && !text[digits] ? strtoll(text, NULL, 10) : 0;
}

/* Returns the number in "#12" or, with several shards, in "#2:12"; 0 for an id. Sets *shard to the
 * shard of the number or of the id. */
static long long number_of(struct ctl *ctl, const char *name, uint32_t *shard)
{
    const char *rest = name + 1;
    *shard = ctl_shard_of(ctl, name);
    if (*name != '#')
        return 0;
    size_t digits = strspn(rest, "0123456789");
    bool has_shard = ctl_is_sharded(ctl) && digits > 0 && rest[digits] == ':';
    if (has_shard) {
        unsigned long index = strtoul(rest, NULL, 10);
        if (index >= ctl->shard_count)
            ctl_usage(ctl, "%s is in shard %lu; the shards are 0 to %u", name, index,
                      ctl->shard_count - 1);
        if (!ctl->shards[index].client)
            ctl_usage(ctl, "%s is in shard %lu, but --shard is %s", name, index,
                      ctl_value(ctl, "shard"));
        *shard = (uint32_t)index;
        rest += digits + 1;
    }
    long long number = read_number(rest);
    if (number > 0 && ctl_is_sharded(ctl) && !has_shard && !ctl_value(ctl, "shard"))
        ctl_usage(ctl, "each shard has a job %s; write '#SHARD:%lld', or add --shard", name,
                  number);
    return number;
}

static bool is_id_of(const redisReply *entry, const char *id)
{
    cJSON *job = cJSON_Parse(entry->str);
    bool is = strcmp(show_text(job, "id"), id) == 0;
    cJSON_Delete(job);
    return is;
}

static void say_missing(const char *name, bool by_number)
{
    if (by_number)
        ctl_say("no dead job has the number %s; see gpuimgctl dead list", name);
    else if (strspn(name, "0123456789") == strlen(name))
        ctl_say("no dead job has the id %s; for number %s of the list write '#%s', in quotes", name,
                name, name);
    else
        ctl_say("no dead job has the id %s; see gpuimgctl dead list", name);
}

/* Finds a dead job of the shard in use by its number or, if that is 0, by its id. Of several jobs
 * with the id it finds the one that died last. */
static struct choice find_here(struct ctl *ctl, const char *name, long long number)
{
    struct choice choice = {.shard = ctl->shard->index};
    size_t got = PIECE;
    for (long long from = number ? number - 1 : 0; !choice.entry && got == PIECE; from += PIECE) {
        redisReply *reply = ctl_ask(ctl, "LRANGE %s:dead %lld %lld", ctl->ns, from,
                                    number ? from : from + PIECE - 1);
        got = reply && reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
        for (size_t i = 0; i < got && !choice.entry; i++)
            if (number || is_id_of(reply->element[i], name)) {
                choice.number = from + (long long)i + 1;
                choice.entry = reply->element[i];
                reply->element[i] = NULL;
            }
        freeReplyObject(reply);
    }
    return choice;
}

/* Finds a dead job by its number, or by its id. Looks for an id in its shard first, then in the
 * others: a job may be in another shard if the number of shards was changed, or if another client
 * sent it. */
static struct choice find(struct ctl *ctl, const char *name)
{
    uint32_t first;
    long long number = number_of(ctl, name, &first);
    struct choice choice = {0};
    for (uint32_t i = 0; i < (number ? 1 : ctl->shard_count) && !choice.entry; i++) {
        uint32_t index = (first + i) % ctl->shard_count;
        if (ctl->shards[index].client && ctl_use(ctl, index))
            choice = find_here(ctl, name, number);
    }
    if (!choice.entry && number && ctl->shards[first].away)
        ctl_say("job %s not found: its shard, %u, is away", name, first);
    else if (!choice.entry && !number && ctl_worst(ctl, CTL_OK) != CTL_OK)
        ctl_say("no dead job has the id %s in the shards that answer", name);
    else if (!choice.entry)
        say_missing(name, number != 0);
    return choice;
}

/* ---- show ---------------------------------------------------------------------------------- */

/* Prints all about a job. Looks for its record at its number and after it: jobs that died since the
 * choice was found are before it in the list. */
static void show_one(struct ctl *ctl, const struct choice *choice)
{
    ctl_use(ctl, choice->shard);
    redisReply *reply = piece_with_errors(ctl, choice->number - 1, ERRORS_PIECE);
    const char *record = "";
    for (size_t i = 0; i < jobs_in(reply) && !*record; i++)
        if (strcmp(reply->element[2 * i]->str, choice->entry->str) == 0)
            record = reply->element[2 * i + 1]->str;
    print_one(ctl, choice->number, choice->entry->str, record, true);
    freeReplyObject(reply);
}

static int show(struct ctl *ctl, int count, char **names)
{
    int status = CTL_OK;
    for (int i = 0; i < count; i++) {
        struct choice choice = find(ctl, names[i]);
        if (choice.entry)
            show_one(ctl, &choice);
        else
            status = CTL_FAILED;
        freeReplyObject(choice.entry);
    }
    return ctl_worst(ctl, status);
}

/* ---- retry and drop ------------------------------------------------------------------------ */

static bool retry_oldest(struct ctl *ctl)
{
    const char *ns = ctl->ns;
    redisReply *reply = ctl_ask(ctl, "EVAL %s 3 %s:dead %s:jobs %s:never %s oldest",
                                script_text(SCRIPT_ID_REVIVE), ns, ns, ns, "");
    bool moved = reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
    freeReplyObject(reply);
    return moved;
}

/* Retries or drops a job. The script finds it by its text, because its number changes when another
 * job dies. Returns false if the job is no longer in the list. */
static bool act_on(struct ctl *ctl, const struct choice *choice, bool retry)
{
    static const char *const names[] = {"dead", "jobs", "never"};
    char keys[3][160], position[32];
    const char *argv[] = {"EVAL", script_text(SCRIPT_ID_REVIVE), "3", keys[0], keys[1], keys[2],
                          choice->entry->str, retry ? "1" : "0"};
    size_t lengths[8];
    for (int i = 0; i < 3; i++)
        snprintf(keys[i], sizeof keys[i], "%s:%s", ctl->ns, names[i]);
    for (int i = 0; i < 8; i++)
        lengths[i] = strlen(argv[i]);
    lengths[6] = choice->entry->len;
    client_send_words(ctl->client, 8, argv, lengths);
    redisReply *reply = client_take(ctl->client);
    if (!client_reply_ok(ctl->client, reply, "EVAL")) { /* uncovered: gone */
        freeReplyObject(reply);
        ctl_lose(ctl);
        return false;
    }
    bool found = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
    if (!found)
        ctl_say("job %s is no longer in the list", show_position(ctl, choice->number, position));
    freeReplyObject(reply);
    return found;
}

static void say_one(const struct ctl *ctl, const struct choice *choice, bool retry, cJSON *jobs)
{
    char position[32];
    cJSON *job = cJSON_Parse(choice->entry->str);
    if (jobs) {
        cJSON_AddItemToArray(jobs, job_json(ctl, choice->number, job, choice->entry->str));
    } else {
        out_put("%s %s", retry ? "retried" : "dropped",
                show_position(ctl, choice->number, position));
        if (*show_text(job, "id"))
            out_put(" %s", id_of(job));
        out_line(": %s", job ? input_of(job) : masked_job(choice->entry->str));
    }
    cJSON_Delete(job);
}

/* Prints the number of jobs. jobs: an array of them for --json, which this function frees, or NULL.
 */
static void say_count(struct ctl *ctl, long long count, bool retry, cJSON *jobs)
{
    const char *done = retry ? "retried" : "dropped";
    char text[SHOW_BYTES];
    if (ctl->json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddNumberToObject(json, done, (double)count);
        if (jobs && !cJSON_AddItemToObject(json, "jobs", jobs))
            cJSON_Delete(jobs);
        ctl_print_json(ctl, json);
    } else {
        out_line("%s dead %s %s", show_count((double)count, text), count == 1 ? "job" : "jobs",
                 done);
    }
}

static long long act_on_shard(struct ctl *ctl, bool retry)
{
    long long count = ctl_integer(ctl, "LLEN", "dead"), done = 0;
    /* At most `count`: a retried job that dies again must not be retried again. */
    while (retry && done < count && retry_oldest(ctl))
        done++;
    if (retry || count == 0)
        return done;
    redisReply *reply = ctl_ask(ctl, "DEL %s:dead %s:dead:errors", ctl->ns, ctl->ns);
    freeReplyObject(reply);
    return ctl->shard->away ? 0 : count;
}

static int act_on_all(struct ctl *ctl, bool retry)
{
    long long done = 0;
    for (uint32_t at = 0; ctl_next(ctl, &at);)
        done += act_on_shard(ctl, retry);
    say_count(ctl, done, retry, NULL);
    return ctl_worst(ctl, CTL_OK);
}

/* Finds all jobs before it removes the first one: a removal changes the numbers of other jobs. */
static int act_on_some(struct ctl *ctl, int count, char **names, bool retry)
{
    struct choice *choices = calloc((size_t)count, sizeof *choices);
    cJSON *jobs = ctl->json ? cJSON_CreateArray() : NULL;
    int done = 0;
    if (!choices)
        ctl_out_of_memory(ctl, "the jobs");
    for (int i = 0; i < count; i++)
        choices[i] = find(ctl, names[i]);
    for (int i = 0; i < count; i++) {
        if (choices[i].entry && ctl_use(ctl, choices[i].shard) &&
            act_on(ctl, &choices[i], retry)) {
            say_one(ctl, &choices[i], retry, jobs);
            done++;
        }
        freeReplyObject(choices[i].entry);
    }
    free(choices);
    if (done > 0 || ctl->json)
        say_count(ctl, done, retry, jobs);
    return ctl_worst(ctl, done == count ? CTL_OK : CTL_FAILED);
}

static enum verb read_verb(struct ctl *ctl, const char *name)
{
    for (int i = 0; i < VERBS; i++)
        if (strcmp(name, verbs[i]) == 0)
            return (enum verb)i;
    const char *near = text_nearest(name, verbs, VERBS);
    ctl_usage(ctl, "dead takes list, show, retry or drop, not \"%s\"%s%s%s", name,
              near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

int ctl_dead(struct ctl *ctl, int count, char **operands)
{
    enum verb verb = count > 0 ? read_verb(ctl, operands[0]) : LIST;
    bool all = ctl_value(ctl, "all") != NULL;
    if (verb == LIST && count > 1) /* uncovered: slip */
        ctl_usage(ctl, "dead list takes no operand, but got \"%s\"", operands[1]);
    if (verb == SHOW && (all || count == 1))
        ctl_usage(ctl, "dead show needs ids, or numbers of the list such as '#1'%s",
                  all ? "; it does not take --all" : "");
    if (verb != LIST && all == (count > 1))
        ctl_usage(ctl, all ? "--all already selects every dead job; drop the operand \"%s\""
                           : "dead %s needs ids, numbers of the list such as '#1' (in "
                             "quotes: a bare # begins a comment in a shell), or --all",
                  all ? operands[1] : verbs[verb]);
    for (int i = 1; i < count; i++)
        if (!*operands[i]) /* of an unset variable: it would match a job without an id */
            ctl_usage(ctl, "a number or id is empty; give an id or a number such as '#1'");
    ctl_connect(ctl);
    if (verb == LIST)
        return list(ctl);
    if (verb == SHOW)
        return show(ctl, count - 1, operands + 1);
    return all ? act_on_all(ctl, verb == RETRY)
               : act_on_some(ctl, count - 1, operands + 1, verb == RETRY);
}
