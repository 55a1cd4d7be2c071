#include "queue/ctl/sets/heartbeats.h"

#include <math.h>

#include "conf/clock.h"
#include "queue/ctl/show.h"

#define READ_EACH_S 1.0
#define DAEMONS_MAX 256

static bool note(struct set_jobs *jobs, const cJSON *set)
{
    struct image_list *list = set_jobs_find_id(jobs, show_text(set, "id"));
    double images = fmin(fmax(show_number(set, "images"), 0), 1e15);
    double failed = fmin(fmax(show_number(set, "failed"), 0), images);
    double fraction = fmin(fmax(show_number(set, "fraction"), 0), 1);
    return list &&
           set_jobs_note(jobs, list, fraction, (uint64_t)(images - failed), (uint64_t)failed);
}

static bool note_daemon(struct set_jobs *jobs, const redisReply *reply)
{
    bool progressed = false;
    const cJSON *set;
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 1)
        return false;
    cJSON *stats = cJSON_Parse(reply->element[0]->str);
    cJSON_ArrayForEach(set, cJSON_GetObjectItemCaseSensitive(stats, "sets")) progressed |=
        note(jobs, set);
    cJSON_Delete(stats);
    return progressed;
}

/* A daemon publishes the same statistics in each shard, so one shard is enough. */
static struct client *any_client(const struct ctl *ctl, const char **ns)
{
    for (uint32_t i = 0; i < ctl->shard_count; i++)
        if (ctl->shards[i].client && client_up(ctl->shards[i].client)) {
            *ns = ctl->shards[i].options.namespace;
            return ctl->shards[i].client;
        }
    return NULL;
}

bool heartbeats_read(struct heartbeats *heartbeats, const struct ctl *ctl, struct set_jobs *jobs)
{
    const char *ns = NULL;
    double now_s = clock_now_s();
    if (jobs->jobs == 0 || now_s - heartbeats->read_s < READ_EACH_S)
        return false;
    heartbeats->read_s = now_s;
    struct client *client = any_client(ctl, &ns);
    if (!client)
        return false;
    client_send(client, "ZRANGE %s:inst 0 %d", ns, DAEMONS_MAX - 1);
    redisReply *daemons = client_take(client);
    size_t count = daemons && daemons->type == REDIS_REPLY_ARRAY ? daemons->elements : 0;
    bool progressed = false;
    for (size_t i = 0; i < count; i++)
        client_send(client, "MGET %s:stats:%s", ns, daemons->element[i]->str);
    for (size_t i = 0; i < count; i++) {
        redisReply *reply = client_take(client);
        progressed |= note_daemon(jobs, reply);
        freeReplyObject(reply);
    }
    freeReplyObject(daemons);
    return progressed;
}
