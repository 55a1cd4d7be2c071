#include "queue/ctl/screen/overview.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/text.h"
#include "queue/ctl/show.h"

/* The most leases to read: 64 daemons with 64 jobs each. */
#define LEASES_MAX 4096

/* The name of each count in JSON, and the command and key that give it. */
static const struct { const char *name, *command, *key; } counts[OVERVIEW_COUNTS] = {
    [OVERVIEW_WAITING] = {"waiting", "LLEN", "jobs"},
    [OVERVIEW_LEASED] = {"leased", "ZCARD", "lease"},
    [OVERVIEW_EXPIRED] = {"expired", NULL, NULL},
    [OVERVIEW_DELAYED] = {"delayed", "ZCARD", "delayed"},
    [OVERVIEW_ALONE] = {"alone", "LLEN", "alone"},
    [OVERVIEW_DEAD] = {"dead", "LLEN", "dead"},
    [OVERVIEW_RESULTS] = {"results", "LLEN", "results"},
};

struct reading {
    struct overview *overview;
    struct client *client;
    const char *ns;
    double now_ms; /* Redis's clock */
    bool failed;   /* Redis did not reply: ask sends nothing more */
};

/* client_ask. Returns NULL if Redis does not reply, or did not before. */
static redisReply *ask(struct reading *reading, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = reading->failed ? NULL : client_vask(reading->client, format, args);
    va_end(args);
    reading->failed |= !reply;
    return reply;
}

static const char *text_of(const redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_STRING ? reply->str : NULL;
}

static const char *string_at(const redisReply *reply, size_t index)
{
    return reply && reply->type == REDIS_REPLY_ARRAY && index < reply->elements
               ? text_of(reply->element[index])
               : NULL;
}

static double number_at(const redisReply *reply, size_t index)
{
    const char *text = string_at(reply, index);
    return text ? strtod(text, NULL) : 0;
}

static long long integer(struct reading *reading, const char *command, const char *key)
{
    redisReply *reply = ask(reading, "%s %s:%s", command, reading->ns, key);
    long long value = reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return value;
}

/* ---- the queue ----------------------------------------------------------------------------- */

/* Reads the lengths of NS:jobs:0 to NS:jobs:9. A key of another type counts as empty. */
static void read_priorities(struct reading *reading)
{
    struct overview *overview = reading->overview;
    if (reading->failed)
        return;
    for (int i = 0; i < JOB_PRIORITIES; i++)
        client_send(reading->client, "LLEN %s:jobs:%d", reading->ns, i);
    for (int i = 0; i < JOB_PRIORITIES; i++) {
        redisReply *reply = client_take(reading->client);
        if (!reply)
            reading->failed = !client_reply_ok(reading->client, reply, "LLEN");
        else if (reply->type == REDIS_REPLY_INTEGER)
            overview->waiting[i] = reply->integer;
        overview->counts[OVERVIEW_WAITING] += overview->waiting[i];
        freeReplyObject(reply);
    }
}

/* Writes the key of the most urgent list that has jobs. NS:jobs has priority 4. */
static void name_next_list(const struct reading *reading, char *key, size_t size)
{
    const struct overview *overview = reading->overview;
    long long plain = overview->counts[OVERVIEW_WAITING];
    int next = JOB_PRIORITIES - 1;
    for (int i = 0; i < JOB_PRIORITIES; i++)
        plain -= overview->waiting[i];
    while (next >= 0 && overview->waiting[next] == 0)
        next--;
    if (next < 0 || (next <= 4 && plain > 0))
        snprintf(key, size, "%s:jobs", reading->ns);
    else
        snprintf(key, size, "%s:jobs:%d", reading->ns, next);
}

/* Sets oldest_s. An entry of a list of jobs is a job, or "@" and the number of a job that was
 * returned. */
static void read_oldest(struct reading *reading)
{
    char key[160];
    name_next_list(reading, key, sizeof key);
    redisReply *entry = ask(reading, "LINDEX %s -1", key);
    if (text_of(entry) && entry->str[0] == '@' && entry->len <= 17) {
        redisReply *number = entry;
        entry = ask(reading, "HGET %s:job:%s raw", reading->ns, number->str + 1);
        freeReplyObject(number);
    }
    cJSON *job = cJSON_Parse(text_of(entry));
    double pushed_s = show_number(job, "pushed");
    reading->overview->oldest_s = pushed_s > 0 ? fmax(reading->now_ms / 1e3 - pushed_s, 0) : -1;
    cJSON_Delete(job);
    freeReplyObject(entry);
}

static void read_next(struct reading *reading)
{
    redisReply *reply = ask(reading, "ZRANGE %s:delayed 0 0 WITHSCORES", reading->ns);
    reading->overview->next_s =
        string_at(reply, 1) ? fmax(number_at(reply, 1) - reading->now_ms, 0) / 1e3 : -1;
    freeReplyObject(reply);
}

static void read_alone(struct reading *reading)
{
    redisReply *reply = ask(reading, "GET %s:alone:owner", reading->ns);
    char *owner = reading->overview->alone_owner;
    text_copy(owner, INSTANCE_BYTES_MAX, text_of(reply) ? reply->str : "");
    text_make_printable(owner);
    freeReplyObject(reply);
}

/* ---- daemons and leases -------------------------------------------------------------------- */

static void read_daemons(struct reading *reading)
{
    struct overview *overview = reading->overview;
    redisReply *reply = ask(reading, "ZRANGE %s:inst 0 -1 WITHSCORES", reading->ns);
    size_t count = reply && reply->type == REDIS_REPLY_ARRAY ? reply->elements / 2 : 0;
    overview->daemons = calloc(count + 1, sizeof *overview->daemons);
    for (size_t i = 0; i < count && overview->daemons; i++) {
        struct overview_daemon *daemon = &overview->daemons[overview->daemon_count];
        const char *name = string_at(reply, 2 * i);
        daemon->left_s = (number_at(reply, 2 * i + 1) - reading->now_ms) / 1e3;
        if (!name || daemon->left_s <= 0)
            continue; /* the name has expired, and no daemon has removed it yet */
        text_copy(daemon->instance, sizeof daemon->instance, name);
        text_make_printable(daemon->instance);
        instance_daemon(daemon->instance, daemon->name);
        overview->daemon_count++;
    }
    freeReplyObject(reply);
}

static void read_stats(struct reading *reading)
{
    struct overview *overview = reading->overview;
    for (size_t i = 0; i < overview->daemon_count; i++) {
        /* Unlike GET, MGET returns nil for a key of another type. */
        redisReply *reply =
            ask(reading, "MGET %s:stats:%s", reading->ns, overview->daemons[i].instance);
        overview->daemons[i].stats = cJSON_Parse(string_at(reply, 0));
        const cJSON *bound =
            cJSON_GetObjectItemCaseSensitive(overview->daemons[i].stats, "queue_oldest_s");
        if (cJSON_IsNumber(bound))
            overview->queue_oldest_s = fmax(overview->queue_oldest_s, bound->valuedouble);
        freeReplyObject(reply);
    }
}

static void count_lease(struct overview *overview, const redisReply *job)
{
    const char *owner = string_at(job, 0);
    size_t attempt = (size_t)fmin(fmax(number_at(job, 1), 0), OVERVIEW_ATTEMPTS - 1);
    overview->attempts[attempt]++;
    for (size_t i = 0; owner && i < overview->daemon_count; i++)
        if (strcmp(owner, overview->daemons[i].instance) == 0)
            overview->daemons[i].leases++;
}

/* Counts the leased jobs by attempt. Sends all commands before it awaits the first reply. */
static void read_leases(struct reading *reading)
{
    redisReply *leases =
        ask(reading, "ZRANGE %s:lease 0 %d WITHSCORES", reading->ns, LEASES_MAX - 1);
    size_t count = leases && leases->type == REDIS_REPLY_ARRAY ? leases->elements / 2 : 0;
    for (size_t i = 0; i < count; i++)
        client_send(reading->client, "HMGET %s:job:%s owner attempt", reading->ns,
                    string_at(leases, 2 * i) ? string_at(leases, 2 * i) : "");
    for (size_t i = 0; i < count; i++) {
        redisReply *job = client_take(reading->client);
        reading->failed |= !client_reply_ok(reading->client, job, "HMGET");
        count_lease(reading->overview, job);
        reading->overview->counts[OVERVIEW_EXPIRED] +=
            string_at(leases, 2 * i + 1) && number_at(leases, 2 * i + 1) < reading->now_ms;
        freeReplyObject(job);
    }
    freeReplyObject(leases);
}

bool overview_read(struct overview *overview, struct client *client, const char *ns, bool details)
{
    struct reading reading = {.overview = overview, .client = client, .ns = ns};
    *overview = (struct overview){.queue_oldest_s = -1, .oldest_s = -1, .next_s = -1};
    redisReply *time = ask(&reading, "TIME");
    reading.now_ms = number_at(time, 0) * 1e3 + number_at(time, 1) / 1e3;
    freeReplyObject(time);
    for (size_t i = 0; i < OVERVIEW_COUNTS; i++)
        if (counts[i].key)
            overview->counts[i] = integer(&reading, counts[i].command, counts[i].key);
    overview->counts[OVERVIEW_RESULTS] += integer(&reading, "XLEN", "results:stream");
    read_priorities(&reading);
    long long paused_ms = integer(&reading, "PTTL", "paused"); /* -2: no key, -1: no expiry */
    overview->paused = paused_ms != -2;
    overview->paused_s = paused_ms >= 0 ? (double)paused_ms / 1e3 : -1;
    read_daemons(&reading);
    read_stats(&reading);
    if (details) {
        read_oldest(&reading);
        read_next(&reading);
        read_alone(&reading);
        read_leases(&reading);
    }
    if (reading.failed)
        overview_clear(overview);
    return !reading.failed;
}

void overview_clear(struct overview *overview)
{
    for (size_t i = 0; i < overview->daemon_count; i++)
        cJSON_Delete(overview->daemons[i].stats);
    free(overview->daemons);
    overview->daemons = NULL;
    overview->daemon_count = 0;
}

/* ---- as JSON ------------------------------------------------------------------------------- */

static void add_daemon(cJSON *list, const struct overview_daemon *daemon)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToArray(list, item);
    cJSON_AddStringToObject(item, "name", daemon->name);
    cJSON_AddStringToObject(item, "instance", daemon->instance);
    cJSON_AddNumberToObject(item, "leases", (double)daemon->leases);
    cJSON_AddNumberToObject(item, "left_s", daemon->left_s);
    if (daemon->stats)
        cJSON_AddItemReferenceToObject(item, "stats", daemon->stats);
}

/* Adds a time; a negative one, which means unknown, becomes null. */
static void add_seconds(cJSON *json, const char *name, double seconds)
{
    if (seconds >= 0)
        cJSON_AddNumberToObject(json, name, seconds);
    else
        cJSON_AddNullToObject(json, name);
}

cJSON *overview_json(const struct overview *overview)
{
    cJSON *json = cJSON_CreateObject();
    cJSON *attempts = cJSON_AddArrayToObject(json, "attempts");
    cJSON *daemons = cJSON_AddArrayToObject(json, "daemons");
    for (size_t i = 0; i < OVERVIEW_COUNTS; i++)
        cJSON_AddNumberToObject(json, counts[i].name, (double)overview->counts[i]);
    cJSON *waiting = cJSON_AddArrayToObject(json, "waiting_by_priority");
    for (int i = 0; i < JOB_PRIORITIES; i++)
        cJSON_AddItemToArray(waiting, cJSON_CreateNumber((double)overview->waiting[i]));
    cJSON_AddBoolToObject(json, "paused", overview->paused);
    if (overview->paused_s >= 0)
        cJSON_AddNumberToObject(json, "paused_s", overview->paused_s);
    add_seconds(json, "oldest_s", overview->oldest_s);
    add_seconds(json, "queue_oldest_s", overview->queue_oldest_s);
    add_seconds(json, "next_delayed_s", overview->next_s);
    if (*overview->alone_owner)
        cJSON_AddStringToObject(json, "alone_owner", overview->alone_owner);
    for (int i = 1; i < OVERVIEW_ATTEMPTS; i++)
        cJSON_AddItemToArray(attempts, cJSON_CreateNumber((double)overview->attempts[i]));
    for (size_t i = 0; i < overview->daemon_count; i++)
        add_daemon(daemons, &overview->daemons[i]);
    return json;
}
