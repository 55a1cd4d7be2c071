#include "queue/lease/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/log.h"
#include "conf/text.h"
#include "queue/lease/lease_impl.h"
#include "queue/redis/shard.h"

void group_set_places(struct group *group, uint32_t places, uint32_t spare, bool open)
{
    group->places.free = places;
    group->places.spare = spare;
    group->places.open = open;
    each_queue (queue, group)
        timer_turn(queue);
}

uint32_t group_waiting_ends(const struct group *group)
{
    size_t ends = 0;
    each_queue (queue, group)
        if (!calls_ready(queue))
            ends += entries_unacknowledged(queue);
    return (uint32_t)ends;
}

/* ---- views ----------------------------------------------------------------------------------- */

uint32_t group_shard_count(const struct group *group)
{
    return group->count;
}

const char *group_namespace(const struct group *group, uint32_t index)
{
    return queue_namespace(group->queues[index]);
}

struct shard_view group_shard_view(struct group *group, uint32_t index)
{
    const struct queue *queue = group->queues[index];
    const struct queue_view *view = queue_view(group->queues[index]);
    return (struct shard_view){
        .ready = view->state == QUEUE_READY,
        .paused = view->paused,
        .reason = view->reason,
        .length = view->length,
        .delayed = view->delayed,
        .dead_listed = view->dead_listed,
        .results = view->results,
        .running = queue->entries.running.length,
        .unacknowledged = view->unacknowledged,
    };
}

static void add_view(struct queue_view *sum, const struct queue_view *view)
{
    sum->length += view->length;
    sum->oldest_s = view->oldest_s > sum->oldest_s ? view->oldest_s : sum->oldest_s;
    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        sum->lengths[i] += view->lengths[i];
    sum->results += view->results;
    sum->dead_listed += view->dead_listed;
    sum->delayed += view->delayed;
    sum->unacknowledged += view->unacknowledged;
    sum->redelivered += view->redelivered;
    sum->stale += view->stale;
    sum->dropped += view->dropped;
    sum->dead += view->dead;
    sum->trimmed += view->trimmed;
    sum->connects += view->connects > 0 ? view->connects - (sum->connects > 0) : 0;
    if (!*sum->version)
        text_copy(sum->version, sizeof sum->version, view->version);
}

/* Appends "shard 2: REASON" to group->reason, cut to its size. */
static void add_reason(struct group *group, const struct queue *queue, const char *reason)
{
    size_t used = strlen(group->reason);
    snprintf(group->reason + used, sizeof group->reason - used, "%s%s%s", used > 0 ? "; " : "",
             queue->log_prefix, reason);
}

const struct queue_view *group_view(struct group *group)
{
    struct queue_view *sum = &group->view;
    uint32_t ready = 0, ready_paused = 0, paused = 0;
    *sum = (struct queue_view){.state = QUEUE_CONNECTING, .reason = group->reason};
    group->reason[0] = '\0';
    each_queue (queue, group) {
        const struct queue_view *view = queue_view(queue);
        add_view(sum, view);
        paused += view->paused;
        if (view->state == QUEUE_READY) {
            sum->state = QUEUE_READY;
            ready++;
            ready_paused += view->paused;
            continue;
        }
        if (view->state == QUEUE_WAITING && sum->state == QUEUE_CONNECTING)
            sum->state = QUEUE_WAITING;
        add_reason(group, queue, view->reason);
    }
    sum->paused = ready > 0 ? ready_paused == ready : paused == group->count;
    return sum;
}

void group_publish(struct group *group, const char *text, double ttl_s)
{
    each_queue (queue, group)
        queue_publish(queue, text, ttl_s);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Copies the options for each queue. The copies live as long as the group. */
static bool take_options(struct group *group, const struct options *all, struct error *error)
{
    group->options = all;
    group->own = calloc(group->count, sizeof *group->own);
    if (!group->own) /* uncovered: memory */
        return error_fail(error, STATUS_OUT_OF_MEMORY, "out of memory for the shards");
    for (uint32_t i = 0; i < group->count; i++)
        if (!shard_options(&group->own[i], all, i, error)) /* uncovered: memory */
            return false;
    return true;
}

struct group *group_create(uv_loop_t *loop, const struct options *options, const char *instance,
                           const struct queue_events *events, struct error *error)
{
    struct group *group = members_new((uint32_t)options->shards);
    if (!group) { /* uncovered: memory */
        error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for the queue");
        return NULL;
    }
    bool whole = take_options(group, options, error);
    for (uint32_t i = 0; whole && i < group->count; i++)
        whole = queue_add(group, i, loop, &group->own[i], instance, events, error) != NULL;
    if (whole)
        return group;
    group_destroy(group); /* uncovered: memory */
    return NULL;
}

void group_start(struct group *group)
{
    each_queue (queue, group)
        queue_start(queue);
}

void group_reload(struct group *group)
{
    struct error error = {0};
    for (uint32_t i = 0; i < group->count; i++)
        if (!options_follow(&group->own[i], group->options, &error)) /* uncovered: memory */
            log_error("%s; shard %u goes on with its old options", error.text, i);
}

static void queue_ended(void *context)
{
    struct queue *queue = context;
    struct group *group = queue->group;
    group->ending.ended[queue->shard] = true;
    if (--group->ending.unclosed == 0)
        group->ending.closed(group->ending.context);
}

void group_close(struct group *group, double timeout_s, void (*closed)(void *context),
                 void *context)
{
    bool again = group->ending.closed != NULL;
    group->ending.closed = closed;
    group->ending.context = context;
    if (!again)
        group->ending.unclosed = group->count;
    each_queue (queue, group)
        if (!group->ending.ended[queue->shard])
            queue_close(queue, timeout_s, queue_ended, queue);
}

void group_destroy(struct group *group)
{
    each_queue (queue, group)
        queue_destroy(queue);
    members_leave(group, NULL);
}

/* ---- one queue ------------------------------------------------------------------------------- */

struct queue *queue_create(uv_loop_t *loop, const struct options *options, const char *instance,
                           const struct queue_events *events, struct error *error)
{
    struct group *group = members_new(1);
    if (!group) {
        error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for the queue");
        return NULL;
    }
    group->options = options;
    struct queue *queue = queue_add(group, 0, loop, options, instance, events, error);
    members_leave(group, NULL); /* the queue has a reference of its own */
    return queue;
}

void queue_set_places(struct queue *queue, uint32_t places)
{
    group_set_places(queue->group, places, 0, places > 0);
}
