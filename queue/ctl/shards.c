/* shards.c - connects gpuimgctl to the shards, and says which shard is in use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/text.h"
#include "queue/ctl/ctl.h"
#include "queue/redis/shard.h"

bool ctl_open_shards(struct ctl *ctl, struct error *error)
{
    if (!shard_check(&ctl->options, error))
        return false;
    ctl->shards = calloc(ctl->options.shards, sizeof *ctl->shards);
    if (!ctl->shards) /* uncovered: memory */
        return error_fail(error, STATUS_OUT_OF_MEMORY, "out of memory for the shards");
    while (ctl->shard_count < ctl->options.shards) {
        struct ctl_shard *shard = &ctl->shards[ctl->shard_count];
        shard->index = ctl->shard_count++;
        if (!shard_options(&shard->options, &ctl->options, shard->index, error))
            return false; /* uncovered: memory */
    }
    return true;
}

/* ---- the shard in use ---------------------------------------------------------------------- */

bool ctl_use(struct ctl *ctl, uint32_t index)
{
    ctl->shard = &ctl->shards[index];
    ctl->client = ctl->shard->client;
    ctl->ns = ctl->shard->options.namespace;
    return !ctl->shard->away;
}

bool ctl_next(struct ctl *ctl, uint32_t *at)
{
    while (*at < ctl->shard_count) {
        const struct ctl_shard *shard = &ctl->shards[(*at)++];
        if (shard->client && ctl_use(ctl, shard->index))
            return true;
    }
    return false;
}

const char *ctl_shard_text(const struct ctl *ctl, const char *format, char text[32])
{
    *text = '\0';
    if (ctl_is_sharded(ctl))
        snprintf(text, 32, format, ctl->shard->index);
    return text;
}

void ctl_no_answer(struct ctl *ctl)
{
    char number[32];
    ctl_say("%s%s", ctl_shard_text(ctl, "shard %u: ", number), client_why(ctl->client));
    ctl_end(ctl, CTL_UNAVAILABLE);
}

static void mark_away(struct ctl *ctl)
{
    char number[32];
    ctl->shard->away = true;
    text_copy(ctl->shard->why, sizeof ctl->shard->why, client_why(ctl->client));
    ctl_say("%s%s", ctl_shard_text(ctl, "shard %u is away: ", number), ctl->shard->why);
}

/* Ends the program if all shards are away. Does not change the shard in use, if there is one. */
static void require_one(struct ctl *ctl)
{
    uint32_t at = 0;
    struct ctl_shard *was = ctl->shard;
    if (!ctl_next(ctl, &at))
        ctl_end(ctl, CTL_UNAVAILABLE);
    if (was)
        ctl_use(ctl, was->index);
}

void ctl_lose(struct ctl *ctl)
{
    mark_away(ctl);
    require_one(ctl);
}

int ctl_worst(const struct ctl *ctl, int status)
{
    bool is_away = false;
    for (uint32_t i = 0; i < ctl->shard_count; i++)
        is_away |= ctl->shards[i].away;
    return is_away && status < CTL_UNAVAILABLE ? CTL_UNAVAILABLE : status;
}

/* ---- connecting ---------------------------------------------------------------------------- */

static uint32_t chosen(struct ctl *ctl)
{
    return (uint32_t)ctl_whole(ctl, "shard", 0, ctl->shard_count - 1, 0);
}

uint32_t ctl_shard_of(struct ctl *ctl, const char *id)
{
    return ctl_value(ctl, "shard") ? chosen(ctl) : shard_of_id(id, strlen(id), ctl->shard_count);
}

/* All clients begin to connect before this waits for the first one. */
static void connect_selected(struct ctl *ctl)
{
    struct error error = {0};
    for (uint32_t i = 0; i < ctl->shard_count; i++) {
        struct ctl_shard *shard = &ctl->shards[i];
        if (shard->selected && !(shard->client = client_begin(&shard->options, &error))) {
            ctl_say("%s", error.text); /* uncovered: gone */
            ctl_end(ctl, CTL_FAULT);
        }
    }
    for (uint32_t at = 0; ctl_next(ctl, &at);)
        if (!client_ready(ctl->client))
            mark_away(ctl);
    ctl->shard = NULL;
    require_one(ctl);
}

void ctl_connect(struct ctl *ctl)
{
    bool is_one = ctl_value(ctl, "shard") != NULL;
    uint32_t one = chosen(ctl);
    for (uint32_t i = 0; i < ctl->shard_count; i++)
        ctl->shards[i].selected = !is_one || i == one;
    connect_selected(ctl);
}

void ctl_connect_for(struct ctl *ctl, int count, char **ids)
{
    for (int i = 0; i < count; i++)
        ctl->shards[ctl_shard_of(ctl, ids[i])].selected = true;
    connect_selected(ctl);
}

/* ---- commands ------------------------------------------------------------------------------ */

redisReply *ctl_ask(struct ctl *ctl, const char *format, ...)
{
    va_list args;
    if (ctl->shard->away)
        return NULL;
    va_start(args, format);
    redisReply *reply = client_vask(ctl->client, format, args);
    va_end(args);
    if (!reply)
        ctl_lose(ctl);
    return reply;
}

long long ctl_integer(struct ctl *ctl, const char *command, const char *key)
{
    redisReply *reply = ctl_ask(ctl, "%s %s:%s", command, ctl->ns, key);
    long long integer = reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return integer;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

void ctl_add_shard(const struct ctl *ctl, cJSON *json)
{
    if (ctl_is_sharded(ctl))
        cJSON_AddNumberToObject(json, "shard", ctl->shard->index);
}

void ctl_add_rows(const struct ctl *ctl, cJSON *json, cJSON *rows)
{
    for (uint32_t i = 0; i < ctl->shard_count; i++) {
        cJSON *row = ctl->shards[i].away ? cJSON_CreateObject() : NULL;
        if (row && cJSON_AddItemToArray(rows, row)) {
            cJSON_AddNumberToObject(row, "shard", i);
            cJSON_AddStringToObject(row, "away", ctl->shards[i].why);
        }
    }
    if (!ctl_is_sharded(ctl) || !cJSON_AddItemToObject(json, "shards", rows))
        cJSON_Delete(rows);
}
