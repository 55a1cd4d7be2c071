#include "queue/ctl/screen/overview.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/text.h"
#include "queue/ctl/show.h"

/* The most leases that are read: 64 daemons with 64 jobs each. */
#define LEASES_MAX 4096

/* The state of one overview_read. */
struct reading {
    struct overview *overview;
    struct client *client;
    const char *ns;
    double now_ms; /* Redis's clock */
};

static bool length(const struct reading *reading, const char *command, const char *name,
                   long long *count)
{
    return client_integer(reading->client, count, "%s %s:%s", command, reading->ns, name);
}

static const char *string_at(const redisReply *reply, size_t index)
{
    return reply && reply->type == REDIS_REPLY_ARRAY && index < reply->elements &&
                   reply->element[index]->type == REDIS_REPLY_STRING
               ? reply->element[index]->str
               : NULL;
}

static bool read_time(struct reading *reading)
{
    redisReply *reply = client_ask(reading->client, "TIME");
    if (!reply) /* uncovered: gone */
        return false;
    const char *seconds = string_at(reply, 0), *micros = string_at(reply, 1);
    reading->now_ms = seconds && micros ? strtod(seconds, NULL) * 1e3 + strtod(micros, NULL) / 1e3
                                        : 0;
    freeReplyObject(reply);
    return true;
}

static bool read_lengths(struct reading *reading)
{
    struct overview *overview = reading->overview;
    return length(reading, "LLEN", "jobs", &overview->waiting) &&
           length(reading, "ZCARD", "delayed", &overview->delayed) &&
           length(reading, "LLEN", "alone", &overview->alone) &&
           length(reading, "ZCARD", "lease", &overview->leased) &&
           length(reading, "LLEN", "dead", &overview->dead) &&
           length(reading, "LLEN", "results", &overview->results);
}

/* ---- the queue ----------------------------------------------------------------------------- */

/* An entry of NS:jobs is a job, or "@" and the number of a job that came back. */
static bool read_oldest(struct reading *reading)
{
    redisReply *entry = client_ask(reading->client, "LINDEX %s:jobs -1", reading->ns);
    if (!entry) /* uncovered: gone */
        return false;
    if (entry->type == REDIS_REPLY_STRING && entry->str[0] == '@' && entry->len <= 17) {
        redisReply *number = entry;
        entry = client_ask(reading->client, "HGET %s:job:%s raw", reading->ns, number->str + 1);
        freeReplyObject(number);
        if (!entry) /* uncovered: gone */
            return false;
    }
    cJSON *job = entry->type == REDIS_REPLY_STRING ? cJSON_Parse(entry->str) : NULL;
    double pushed_s = show_number(job, "pushed");
    reading->overview->oldest_s =
        pushed_s > 0 ? fmax(reading->now_ms / 1e3 - pushed_s, 0) : -1;
    cJSON_Delete(job);
    freeReplyObject(entry);
    return true;
}

static bool read_next(struct reading *reading)
{
    redisReply *reply =
        client_ask(reading->client, "ZRANGE %s:delayed 0 0 WITHSCORES", reading->ns);
    if (!reply) /* uncovered: gone */
        return false;
    const char *due = string_at(reply, 1);
    reading->overview->next_s =
        due ? fmax(strtod(due, NULL) - reading->now_ms, 0) / 1e3 : -1;
    freeReplyObject(reply);
    return true;
}

static bool read_alone(struct reading *reading)
{
    redisReply *reply = client_ask(reading->client, "GET %s:alone:owner", reading->ns);
    if (!reply) /* uncovered: gone */
        return false;
    if (reply->type == REDIS_REPLY_STRING)
        text_copy(reading->overview->alone_owner, sizeof reading->overview->alone_owner,
                  reply->str);
    text_make_printable(reading->overview->alone_owner);
    freeReplyObject(reply);
    return true;
}

static bool read_paused(struct reading *reading)
{
    long long ms = -2; /* PTTL: -2: no such key, -1: no expiry */
    bool ok = length(reading, "PTTL", "paused", &ms);
    reading->overview->paused = ms != -2;
    reading->overview->paused_s = ms >= 0 ? (double)ms / 1e3 : -1;
    return ok;
}

/* ---- daemons and leases -------------------------------------------------------------------- */

static bool read_daemons(struct reading *reading)
{
    struct overview *overview = reading->overview;
    redisReply *reply =
        client_ask(reading->client, "ZRANGE %s:inst 0 -1 WITHSCORES", reading->ns);
    if (!reply) /* uncovered: gone */
        return false;
    size_t count = reply->type == REDIS_REPLY_ARRAY ? reply->elements / 2 : 0;
    overview->daemons = calloc(count + 1, sizeof *overview->daemons);
    for (size_t i = 0; i < count && overview->daemons; i++) {
        const char *name = string_at(reply, 2 * i), *end = string_at(reply, 2 * i + 1);
        struct overview_daemon *daemon = &overview->daemons[overview->daemon_count];
        double left_s = end ? (strtod(end, NULL) - reading->now_ms) / 1e3 : 0;
        if (!name || left_s <= 0)
            continue; /* expired, but not yet removed */
        text_copy(daemon->instance, sizeof daemon->instance, name);
        text_make_printable(daemon->instance);
        instance_daemon(daemon->instance, daemon->name);
        daemon->left_s = left_s;
        overview->daemon_count++;
    }
    freeReplyObject(reply);
    return true;
}

static bool read_stats(struct reading *reading)
{
    struct overview *overview = reading->overview;
    for (size_t i = 0; i < overview->daemon_count; i++) {
        /* Unlike GET, MGET returns nil for a key of another type. */
        redisReply *reply = client_ask(reading->client, "MGET %s:stats:%s", reading->ns,
                                       overview->daemons[i].instance);
        if (!reply) /* uncovered: gone */
            return false;
        const char *text = string_at(reply, 0);
        overview->daemons[i].stats = text ? cJSON_Parse(text) : NULL;
        freeReplyObject(reply);
    }
    return true;
}

static void count_lease(struct overview *overview, const redisReply *job)
{
    const char *owner = string_at(job, 0), *attempt = string_at(job, 1);
    long number = attempt ? strtol(attempt, NULL, 10) : 0;
    number = number < 0 ? 0 : number;
    overview->attempts[number < OVERVIEW_ATTEMPTS ? number : OVERVIEW_ATTEMPTS - 1]++;
    for (size_t i = 0; owner && i < overview->daemon_count; i++)
        if (strcmp(owner, overview->daemons[i].instance) == 0)
            overview->daemons[i].leases++;
}

/* Sends all commands before it awaits the first reply. */
static bool read_jobs(struct reading *reading, const redisReply *leases)
{
    bool ok = true;
    for (size_t i = 0; i + 1 < leases->elements; i += 2)
        client_send(reading->client, "HMGET %s:job:%s owner attempt", reading->ns,
                    string_at(leases, i) ? string_at(leases, i) : "");
    for (size_t i = 0; i + 1 < leases->elements; i += 2) {
        const char *end = string_at(leases, i + 1);
        redisReply *job = client_take(reading->client);
        ok = client_reply_ok(reading->client, job, "HMGET") && ok;
        if (ok)
            count_lease(reading->overview, job);
        reading->overview->expired += end && strtod(end, NULL) < reading->now_ms;
        freeReplyObject(job);
    }
    return ok;
}

static bool read_leases(struct reading *reading)
{
    redisReply *reply = client_ask(reading->client, "ZRANGE %s:lease 0 %d WITHSCORES", reading->ns,
                                   LEASES_MAX - 1);
    if (!reply) /* uncovered: gone */
        return false;
    bool ok = reply->type != REDIS_REPLY_ARRAY || read_jobs(reading, reply);
    freeReplyObject(reply);
    return ok;
}

bool overview_read(struct overview *overview, struct client *client, const char *ns, bool details)
{
    struct reading reading = {overview, client, ns, 0};
    memset(overview, 0, sizeof *overview);
    overview->oldest_s = overview->next_s = -1;
    bool ok = read_time(&reading) && read_lengths(&reading) && read_paused(&reading) &&
              read_daemons(&reading) && read_stats(&reading) &&
              (!details || (read_oldest(&reading) && read_next(&reading) && read_alone(&reading) &&
                            read_leases(&reading)));
    if (!ok)
        overview_clear(overview);
    return ok;
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

static bool add_daemon(cJSON *list, const struct overview_daemon *daemon)
{
    cJSON *item = cJSON_CreateObject();
    if (!item) /* uncovered: gone */
        return false;
    cJSON_AddItemToArray(list, item);
    return cJSON_AddStringToObject(item, "name", daemon->name) &&
           cJSON_AddStringToObject(item, "instance", daemon->instance) &&
           cJSON_AddNumberToObject(item, "leases", (double)daemon->leases) &&
           cJSON_AddNumberToObject(item, "left_s", daemon->left_s) &&
           (!daemon->stats || cJSON_AddItemReferenceToObject(item, "stats", daemon->stats));
}

static bool add_counts(cJSON *json, const struct overview *overview)
{
    const struct { const char *name; long long count; } rows[] = {
        {"waiting", overview->waiting},   {"leased", overview->leased},
        {"expired", overview->expired},   {"delayed", overview->delayed},
        {"alone", overview->alone},       {"dead", overview->dead},
        {"results", overview->results}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!cJSON_AddNumberToObject(json, rows[i].name, (double)rows[i].count))
            return false; /* uncovered: gone */
    return true;
}

/* A negative value is unknown and becomes null. */
static bool add_seconds(cJSON *json, const char *name, double seconds)
{
    return seconds >= 0 ? cJSON_AddNumberToObject(json, name, seconds) != NULL
                        : cJSON_AddNullToObject(json, name) != NULL;
}

cJSON *overview_json(const struct overview *overview)
{
    cJSON *json = cJSON_CreateObject();
    cJSON *attempts = json ? cJSON_AddArrayToObject(json, "attempts") : NULL;
    cJSON *daemons = json ? cJSON_AddArrayToObject(json, "daemons") : NULL;
    bool ok = attempts && daemons && add_counts(json, overview) &&
              cJSON_AddBoolToObject(json, "paused", overview->paused) &&
              (overview->paused_s < 0 ||
               cJSON_AddNumberToObject(json, "paused_s", overview->paused_s)) &&
              add_seconds(json, "oldest_s", overview->oldest_s) &&
              add_seconds(json, "next_delayed_s", overview->next_s) &&
              (!*overview->alone_owner ||
               cJSON_AddStringToObject(json, "alone_owner", overview->alone_owner));
    for (int i = 1; i < OVERVIEW_ATTEMPTS && ok; i++)
        cJSON_AddItemToArray(attempts, cJSON_CreateNumber((double)overview->attempts[i]));
    for (size_t i = 0; i < overview->daemon_count && ok; i++)
        ok = add_daemon(daemons, &overview->daemons[i]);
    if (ok)
        return json;
    cJSON_Delete(json); /* uncovered: gone */
    return NULL;
}
