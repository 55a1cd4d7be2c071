#include "daemon/http/fleet_json.h"

#include <math.h>
#include <string.h>

#include "conf/text.h"
#include "queue/job/json.h"
#include "queue/job/writer.h"

/* Longer texts of a heartbeat are cut; why a daemon is blocked may have a path. */
#define WORD_BYTES 64
#define TEXT_BYTES 400
/* Shown devices per daemon. */
#define DEVICES_SHOWN 64
/* A number above this is nonsense, and would have hundreds of digits. */
#define NUMBER_MAX 1e15

static const cJSON *member(const cJSON *object, const char *key)
{
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
}

static double number_of(const cJSON *object, const char *key)
{
    const cJSON *item = member(object, key);
    return cJSON_IsNumber(item) ? fmin(fmax(item->valuedouble, 0), NUMBER_MAX) : 0;
}

static void put_number(struct writer *w, const cJSON *object, const char *key, int digits)
{
    if (cJSON_IsNumber(member(object, key)))
        writer_decimal(w, key, number_of(object, key), digits);
}

/* most: TEXT_BYTES at most. */
static void put_text(struct writer *w, const char *key, const char *text, size_t most)
{
    char shown[TEXT_BYTES];
    if (!text)
        return;
    text_copy(shown, most, text);
    text_make_printable(shown);
    writer_text(w, key, shown);
}

static void put_member(struct writer *w, const cJSON *object, const char *key, size_t most)
{
    put_text(w, key, cJSON_GetStringValue(member(object, key)), most);
}

static void put_blocked(struct writer *w, const cJSON *blocked)
{
    if (!cJSON_IsObject(blocked))
        return;
    writer_open(w, "blocked", '{');
    put_member(w, blocked, "by", WORD_BYTES);
    put_number(w, blocked, "for_s", 1);
    put_member(w, blocked, "why", TEXT_BYTES);
    put_member(w, blocked, "advice", TEXT_BYTES);
    writer_close(w, '}');
}

static void put_devices(struct writer *w, const cJSON *stats)
{
    const cJSON *list = member(stats, "devices"), *device;
    size_t count = 0;
    writer_open(w, "devices", '[');
    for (device = cJSON_IsArray(list) ? list->child : NULL; device && count < DEVICES_SHOWN;
         device = device->next, count++)
        put_text(w, NULL, cJSON_GetStringValue(member(device, "name")), WORD_BYTES);
    writer_close(w, ']');
}

static void put_stats(struct writer *w, const cJSON *stats)
{
    static const struct {
        const char *name;
        int digits;
    } numbers[] = {{"up_s", 0},     {"jobs_s", 3},  {"pixels_s", 0}, {"in_flight", 0},
                   {"oldest_s", 1}, {"jobs", 0},    {"done", 0},     {"failed", 0},
                   {"dead", 0},     {"retried", 0}, {"pixels", 0},   {"workers", 0},
                   {"streams", 0},  {"shards", 0},  {"queue", 0},    {"queue_oldest_s", 1}};
    put_member(w, stats, "version", WORD_BYTES);
    put_member(w, stats, "engine", WORD_BYTES);
    put_member(w, stats, "state", WORD_BYTES);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        put_number(w, stats, numbers[i].name, numbers[i].digits);
    put_blocked(w, member(stats, "blocked"));
    put_devices(w, stats);
}

/* The seconds since the daemon published its statistics, or since it renewed its name. */
static double age_of(const struct fleet_daemon *daemon, const cJSON *stats, double lease_s)
{
    double left_s = daemon->left_s;
    if (stats && daemon->stats_left_s >= 0)
        left_s = daemon->stats_left_s;
    return fmax(lease_s - left_s, 0);
}

/* A daemon publishes its statistics at least every renew_s, which is a sixth of lease_s by default,
 * and renews its name as often. Nothing has come from a late one for half a lease. */
static const char *life_of(const struct fleet_daemon *daemon, const cJSON *stats, double age_s,
                           double lease_s)
{
    if (daemon->left_s < 0)
        return "dead";
    if (!cJSON_IsObject(stats))
        return "silent";
    return age_s > lease_s / 2 ? "late" : "alive";
}

/* lease_s: of this daemon; others may have another one. */
static void put_daemon(struct writer *w, const struct fleet_daemon *daemon, double lease_s)
{
    char name[INSTANCE_BYTES_MAX], instance[INSTANCE_BYTES_MAX];
    struct error ignored = {0};
    cJSON *stats =
        daemon->stats ? json_parse(daemon->stats, strlen(daemon->stats), NULL, &ignored) : NULL;
    text_copy(instance, sizeof instance, daemon->instance);
    text_make_printable(instance);
    instance_daemon(instance, name);
    writer_open(w, NULL, '{');
    writer_text(w, "name", name);
    writer_text(w, "instance", instance);
    if (number_of(stats, "lease_s") > 0)
        lease_s = number_of(stats, "lease_s");
    double age_s = age_of(daemon, stats, lease_s);
    writer_text(w, "life", life_of(daemon, stats, age_s, lease_s));
    writer_decimal(w, "age_s", age_s, 1);
    put_stats(w, stats);
    writer_close(w, '}');
    cJSON_Delete(stats);
}

/* The queue, as this daemon knows it. */
static void put_queue(struct writer *w, const struct snapshot *s)
{
    writer_number(w, "waiting", s->queue_length);
    writer_decimal(w, "oldest_s", s->queue_oldest_s, 1);
    writer_number(w, "delayed", s->delayed);
    writer_number(w, "dead", s->dead_listed);
    writer_number(w, "results", s->results);
    writer_open(w, "shards", '[');
    for (uint32_t i = 0; i < s->shard_count && s->shard_count > 1; i++) {
        const struct snapshot_shard *shard = &s->shards[i];
        writer_open(w, NULL, '{');
        writer_number(w, "shard", i);
        writer_bool(w, "up", shard->up);
        writer_bool(w, "paused", shard->paused);
        writer_text(w, "reason", shard->reason);
        writer_number(w, "waiting", shard->length);
        writer_number(w, "delayed", shard->delayed);
        writer_number(w, "dead", shard->dead_listed);
        writer_number(w, "results", shard->results);
        writer_close(w, '}');
    }
    writer_close(w, ']');
}

static const char *reason_of(const struct snapshot *s, const struct error *error)
{
    if (s->redis_ready)
        return error->status != STATUS_OK ? error->text : "Redis does not answer in time";
    return *s->redis_reason ? s->redis_reason : "the daemon starts";
}

char *fleet_json_write(const struct snapshot *snapshot, const struct fleet *fleet,
                       const struct error *error)
{
    struct writer w = {0};
    writer_open(&w, NULL, '{');
    writer_text(&w, "namespace", snapshot->namespace);
    writer_text(&w, "from", snapshot->daemon);
    writer_decimal(&w, "time", snapshot->taken_s, 3);
    writer_bool(&w, "known", fleet != NULL);
    writer_text(&w, "reason", fleet ? NULL : reason_of(snapshot, error));
    put_queue(&w, snapshot);
    if (fleet) {
        writer_number(&w, "names", fleet->names);
        writer_number(&w, "alive", fleet->alive);
        writer_number(&w, "listed", fleet->sorted);
        writer_number(&w, "page", fleet->first / FLEET_PAGE);
        writer_number(&w, "pages", (fleet->sorted + FLEET_PAGE - 1) / FLEET_PAGE);
    }
    writer_open(&w, "daemons", '[');
    for (uint32_t i = 0; fleet && i < fleet->count; i++)
        put_daemon(&w, &fleet->list[i], snapshot->lease_s);
    writer_close(&w, ']');
    writer_close(&w, '}');
    return writer_finish(&w);
}
