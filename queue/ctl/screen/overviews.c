#include "queue/ctl/screen/overviews.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conf/text.h"
#include "queue/ctl/show.h"

/* ---- the sum ------------------------------------------------------------------------------- */

/* The larger of two ages; a negative one is unknown. */
static double later(double a, double b)
{
    return fmax(a, b);
}

static double sooner(double a, double b)
{
    return a < 0 ? b : b < 0 ? a : fmin(a, b);
}

/* The time until both pauses end; a negative time means that one never does. */
static double last_of(double a, double b)
{
    return a < 0 || b < 0 ? -1 : fmax(a, b);
}

/* Adds a daemon to `sum`. A daemon publishes its statistics in each shard; the newest are kept,
 * because those of a shard that was away are older. */
static void add_daemon(struct overview *sum, struct overview_daemon *daemon)
{
    struct overview_daemon *same = sum->daemons;
    size_t left = sum->daemon_count;
    while (left > 0 && strcmp(same->instance, daemon->instance) != 0) {
        same++;
        left--;
    }
    if (left == 0) {
        *same = *daemon;
        sum->daemon_count++;
    } else {
        same->leases += daemon->leases;
        same->left_s = fmax(same->left_s, daemon->left_s);
        cJSON *older = daemon->stats;
        if (!same->stats || show_number(older, "up_s") > show_number(same->stats, "up_s")) {
            older = same->stats;
            same->stats = daemon->stats;
        }
        cJSON_Delete(older);
    }
    daemon->stats = NULL;
}

static bool add_daemons(struct overview *sum, struct overview *part)
{
    size_t most = sum->daemon_count + part->daemon_count;
    struct overview_daemon *daemons = realloc(sum->daemons, (most + 1) * sizeof *daemons);
    if (!daemons) /* uncovered: gone */
        return false;
    sum->daemons = daemons;
    for (size_t i = 0; i < part->daemon_count; i++)
        add_daemon(sum, &part->daemons[i]);
    overview_clear(part);
    return true;
}

static void add(struct overview *sum, const struct overview *part)
{
    for (size_t i = 0; i < OVERVIEW_COUNTS; i++)
        sum->counts[i] += part->counts[i];
    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        sum->waiting[i] += part->waiting[i];
    for (size_t i = 0; i < OVERVIEW_ATTEMPTS; i++)
        sum->attempts[i] += part->attempts[i];
    sum->queue_oldest_s = later(sum->queue_oldest_s, part->queue_oldest_s);
    sum->oldest_s = later(sum->oldest_s, part->oldest_s);
    sum->next_s = sooner(sum->next_s, part->next_s);
    if (part->paused)
        sum->paused_s = !sum->paused ? part->paused_s : last_of(sum->paused_s, part->paused_s);
    sum->paused |= part->paused;
    if (!*sum->alone_owner)
        text_copy(sum->alone_owner, sizeof sum->alone_owner, part->alone_owner);
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Reads the shard in use. With several shards, does not wait for one that is away: its client tries
 * to connect whenever the loop runs. */
static bool read_shard(struct ctl *ctl, struct overview *part, bool details)
{
    if (ctl_is_sharded(ctl) && ctl->shard->away && !client_up(ctl->client))
        return false;
    return overview_read(part, ctl->client, ctl->ns, details);
}

static void lose(struct ctl *ctl, bool quiet)
{
    char number[32];
    if (!ctl_is_sharded(ctl))
        return;
    text_copy(ctl->shard->why, sizeof ctl->shard->why, client_why(ctl->client));
    if (!ctl->shard->away && !quiet)
        ctl_say("%s%s", ctl_shard_text(ctl, "shard %u is away: ", number), ctl->shard->why);
    ctl->shard->away = true;
}

bool overviews_read(struct overviews *all, struct ctl *ctl, bool details, bool quiet)
{
    *all = (struct overviews){
        .sum = {.queue_oldest_s = -1, .oldest_s = -1, .next_s = -1, .paused_s = -1},
        .parts = calloc(ctl->shard_count, sizeof *all->parts)};
    if (!all->parts) /* uncovered: gone */
        ctl_out_of_memory(ctl, "the snapshot");
    for (uint32_t i = 0; i < ctl->shard_count; i++) {
        struct overview *part = &all->parts[i];
        if (!ctl->shards[i].client)
            continue;
        ctl_use(ctl, i);
        all->read[i] = read_shard(ctl, part, details);
        if (!all->read[i]) {
            lose(ctl, quiet);
            continue;
        }
        ctl->shard->away = false;
        all->count++;
        add(&all->sum, part);
        if (!add_daemons(&all->sum, part)) /* uncovered: gone */
            ctl_out_of_memory(ctl, "the daemons");
    }
    if (all->count == 0)
        overviews_clear(all);
    return all->count > 0;
}

void overviews_clear(struct overviews *all)
{
    overview_clear(&all->sum);
    free(all->parts);
    all->parts = NULL;
}

/* ---- as JSON ------------------------------------------------------------------------------- */

static cJSON *row_json(const struct overviews *all, const struct ctl_shard *shard)
{
    const struct overview *part = &all->parts[shard->index];
    cJSON *row = all->read[shard->index] ? overview_json(part) : cJSON_CreateObject();
    cJSON_DeleteItemFromObjectCaseSensitive(row, "daemons");
    cJSON_AddNumberToObject(row, "shard", shard->index);
    cJSON_AddStringToObject(row, "redis", show_redis(shard->options.redis));
    cJSON_AddStringToObject(row, "namespace", shard->options.namespace);
    if (shard->away)
        cJSON_AddStringToObject(row, "away", shard->why);
    return row;
}

cJSON *overviews_json(const struct overviews *all, const struct ctl *ctl)
{
    cJSON *json = overview_json(&all->sum);
    cJSON *rows = ctl_is_sharded(ctl) ? cJSON_AddArrayToObject(json, "shards") : NULL;
    for (uint32_t i = 0; i < ctl->shard_count && rows; i++)
        if (ctl->shards[i].client)
            cJSON_AddItemToArray(rows, row_json(all, &ctl->shards[i]));
    return json;
}
