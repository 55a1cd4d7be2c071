#include "queue/lease/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "conf/text.h"
#include "queue/lease/lease_impl.h"

/* Elements of the reply before the daemons, and for each of them. */
enum { HEAD = 3, EACH = 4 };

void fleet_clear(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->count; i++)
        free(fleet->list[i].stats);
    fleet->count = 0;
}

static void take_daemon(struct fleet_daemon *daemon, redisReply *const *parts)
{
    const redisReply *name = parts[0], *left = parts[1], *stats_left = parts[2], *stats = parts[3];
    text_copy(daemon->instance, sizeof daemon->instance, name->str);
    daemon->left_s = strtod(left->str, NULL) / 1e3;
    daemon->stats_left_s = (double)stats_left->integer / 1e3;
    daemon->stats = stats->len > 0 ? strndup(stats->str, stats->len) : NULL;
}

static struct fleet *read_reply(const redisReply *reply, uint32_t first, struct error *error)
{
    struct fleet *fleet = calloc(1, sizeof *fleet);
    if (!fleet) { /* uncovered: memory */
        error_refuse(error, "no memory for the list of daemons");
        return NULL;
    }
    fleet->first = first;
    fleet->names = (uint64_t)script_reply_integer(reply, 0);
    fleet->alive = (uint64_t)script_reply_integer(reply, 1);
    fleet->sorted = (uint64_t)script_reply_integer(reply, 2);
    for (size_t i = HEAD; i + EACH <= reply->elements && fleet->count < FLEET_PAGE; i += EACH) {
        redisReply *const *parts = &reply->element[i];
        if (parts[0]->type == REDIS_REPLY_STRING && parts[1]->type == REDIS_REPLY_STRING &&
            parts[2]->type == REDIS_REPLY_INTEGER && parts[3]->type == REDIS_REPLY_STRING)
            take_daemon(&fleet->list[fleet->count++], parts);
    }
    return fleet;
}

static void answered(void *context, redisReply *reply)
{
    struct queue *queue = context;
    struct fleet_call call = queue->fleet;
    queue->fleet = (struct fleet_call){0};
    struct fleet *fleet = NULL;
    struct error error = {0};
    if (script_reply_is_array(reply, HEAD)) {
        fleet = read_reply(reply, call.first, &error);
    } else if (reply) {
        calls_refused(queue, SCRIPT_ID_FLEET, reply, false);
        const char *refusal = queue->calls.logged_refusal[SCRIPT_ID_FLEET];
        error_refuse(&error, "Redis refuses %s: %s%s", script_name(SCRIPT_ID_FLEET), refusal,
                     redis_advice(refusal));
    }
    call.done(call.context, fleet, &error);
}

static bool ask(struct queue *queue, uint32_t first, fleet_done done, void *context)
{
    if (!calls_ready(queue) || queue_is_closing(queue) || queue->fleet.done)
        return false;
    struct script_call *call = call_new(queue, SCRIPT_ID_FLEET, "inst");
    script_call_number(call, first);
    script_call_number(call, FLEET_PAGE);
    script_call_number(call, FLEET_NAMES_MAX);
    script_call_number(call, FLEET_STATS_BYTES_MAX);
    if (!script_call_send(call, queue->redis, answered, queue))
        return false;
    queue->fleet = (struct fleet_call){first, done, context};
    return true;
}

bool fleet_ask(struct group *group, uint32_t first, fleet_done done, void *context)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (group->queues[i] && ask(group->queues[i], first, done, context))
            return true;
    return false;
}
