#include "queue/lease/group.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/log.h"
#include "conf/text.h"
#include "queue/lease/lease_impl.h"
#include "queue/redis/shard.h"

/* The queues of a group; those that are freed are skipped. */
#define each_queue(one, all)                                                                       \
    for (uint32_t at_ = 0; at_ < (all)->count; at_++)                                              \
        for (struct queue *one = (all)->queues[at_]; one; one = NULL)

/* ---- places --------------------------------------------------------------------------------- */

bool group_is_open(const struct queue *queue)
{
    const struct group *group = queue->group;
    return group->count == 1 ? group->places > 0 : group->open;
}

/* Whether another shard has the right to run jobs alone. A shard that is away has it only while
 * such a job runs. */
static bool is_other_alone(const struct queue *queue)
{
    if (queue->group->count == 1)
        return false;
    each_queue (other, queue->group)
        if (other != queue && other->alone && (queue_ready(other) || lease_runs_alone(other)))
            return true;
    return false;
}

/* The places that a shard holds for running jobs, unacknowledged ends and its FETCH. */
static size_t held_places(const struct queue *queue)
{
    return queue->entries.length + queue->fetch_places;
}

/* A slow shard holds places for its whole round trips, in which they have no jobs. So the places
 * that other shards hold count here only if a job runs in them: with spare places, each shard may
 * take the rest of `inflight`. */
static uint32_t spare_room(const struct queue *queue)
{
    const struct group *group = queue->group;
    size_t left = group->places + group->spare - group->reserved;
    size_t used = 0, most = group->options->inflight;
    if (group->spare == 0)
        return 0;
    each_queue (other, group)
        used += other == queue ? held_places(other) : other->running.length;
    size_t room = used < most ? most - used : 0;
    return (uint32_t)(room < left ? room : left);
}

uint32_t group_room(const struct queue *queue)
{
    const struct group *group = queue->group;
    if (group->places + group->spare <= group->reserved || is_other_alone(queue))
        return 0;
    uint32_t room = group->places > group->reserved ? group->places - group->reserved : 0;
    uint32_t spare = group->count > 1 ? spare_room(queue) : 0;
    return room > spare ? room : spare;
}

bool group_runs_jobs(const struct group *group)
{
    each_queue (queue, group)
        if (queue->running.length > 0)
            return true;
    return false;
}

size_t group_busy(const struct queue *queue)
{
    const struct group *group = queue->group;
    size_t jobs = 0;
    if (group->count == 1)
        return queue->entries.length;
    each_queue (one, group) {
        jobs += one == queue || queue_ready(one) ? one->entries.length : one->running.length;
        jobs += one != queue && one->fetch_out;
    }
    return jobs;
}

/* A queue that fetches, or will when there is a place. */
static bool is_active(const struct queue *queue)
{
    return queue_ready(queue) && !queue->idle && !queue_is_closing(queue) && !queue->done.refused &&
           !queue->nack.refused;
}

bool group_may_claim(const struct queue *queue)
{
    if (queue->group->count == 1)
        return true;
    if (is_other_alone(queue))
        return false;
    each_queue (other, queue->group)
        if (other != queue && (other->fetch_claims ||
                               (is_active(other) && other->claim_turn < queue->claim_turn)))
            return false;
    return true;
}

void group_claimed(struct queue *queue)
{
    each_queue (other, queue->group)
        if (other != queue && !lease_runs_alone(other))
            other->alone = false;
}

/* Sorts by `turn`, least recent first. The array is short, and nearly sorted. */
static void sort_by_turn(struct queue **queues, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct queue *queue = queues[i];
        uint32_t at = i;
        for (; at > 0 && queues[at - 1]->turn > queue->turn; at--)
            queues[at] = queues[at - 1];
        queues[at] = queue;
    }
}

/* An equal part of all places, held or free, for each queue that has jobs. A shard whose calls or
 * jobs take longer holds its places longer, so that equal parts of the free ones would give it most
 * of them. */
static size_t fair_share(const struct group *group)
{
    size_t places = group->places, active = 0;
    each_queue(queue, group)
    {
        places += queue_ready(queue) ? queue->entries.length : 0;
        active += is_active(queue);
    }
    return active > 0 ? (places + active - 1) / active : 0;
}

/* The free places that the queue may take now. */
static uint32_t room_of(const struct queue *queue, size_t share)
{
    size_t held = held_places(queue), room = group_room(queue);
    size_t left = share > held ? share - held : 0;
    return (uint32_t)(left < room ? left : room);
}

void group_fetch(struct group *group)
{
    struct queue *queues[SHARDS_MAX];
    uint32_t due = 0;
    if (group->places + group->spare <= group->reserved)
        return;
    size_t share = fair_share(group);
    each_queue(queue, group)
    {
        uint32_t room = !queue->idle && fetch_is_possible(queue) ? room_of(queue, share) : 0;
        if (room > 0 && fetch_is_due(queue, room))
            queues[due++] = queue;
    }
    sort_by_turn(queues, due);
    for (uint32_t i = 0; i < due; i++) {
        uint32_t room = room_of(queues[i], share);
        if (room > 0)
            fetch_send(queues[i], room);
    }
}

void group_set_places(struct group *group, uint32_t places, uint32_t spare, bool open)
{
    if (group->count == 1) {
        queue_set_places(group->queues[0], places);
        return;
    }
    group->places = places;
    group->spare = spare;
    group->open = open;
    each_queue (queue, group) {
        if (queue->life == LIFE_NEW)
            continue;
        fetch_check_watch(queue);
        fetch_wait(queue);
    }
    group_fetch(group);
}

/* ---- ends that wait ------------------------------------------------------------------------- */

uint32_t group_parked(const struct group *group)
{
    size_t ends = 0;
    if (group->count == 1)
        return 0;
    each_queue (queue, group)
        if (!queue_ready(queue))
            ends += queue_unacknowledged(queue);
    return (uint32_t)ends;
}

/* Drops the acknowledgements that wait in a lane if its shard is away, or if Redis has refused the
 * lane's calls for longer than the lease: it may refuse DONE or NACK while it accepts RENEW.
 * Returns the number of jobs. */
static size_t drop_lane(struct lane *lane, bool away, double lease_ms)
{
    uint64_t refused_ms = lane->refused ? uv_now(lane->queue->loop) - lane->refused_ms : 0;
    return away || (double)refused_ms > lease_ms ? ack_drop(lane) : 0;
}

void group_drop_ends(struct queue *queue)
{
    double lease_ms = queue->options->lease_s * 1000;
    bool away = (double)(uv_now(queue->loop) - queue->accepted_ms) > lease_ms;
    if (queue->group->count == 1)
        return;
    size_t dropped =
        drop_lane(&queue->done, away, lease_ms) + drop_lane(&queue->nack, away, lease_ms);
    if (dropped > 0) {
        log_warning("%sRedis has accepted no acknowledgements for %g s: those of %zu jobs are "
                    "dropped, and the jobs will run again", queue->mark, queue->options->lease_s,
                    dropped);
        /* If the connection is still up, because Redis refuses calls or this process was suspended,
         * no reconnect will send RESUME. */
        if (queue->resumes_due < 1)
            queue->resumes_due = 1;
    }
    queue_close_check(queue); /* a close may have waited only for them */
}

/* ---- bytes of calls ------------------------------------------------------------------------- */

bool group_take_bytes(struct lane *lane, size_t bytes)
{
    struct group *group = lane->queue->group;
    struct lane *first = group->first_lane;
    if (group->count == 1 || bytes <= CALL_SMALL_BYTES)
        return true;
    bool later = first && first != lane && queue_ready(first->queue) && first->waiting.length > 0;
    if (later || (group->sent_bytes > 0 && group->sent_bytes + bytes > KEY_OUTPUTS_BYTES_MAX)) {
        group->first_lane = later ? first : lane;
        return false;
    }
    group->first_lane = NULL;
    group->sent_bytes += bytes;
    lane->sent_bytes = bytes;
    return true;
}

static void try_again(struct lane *lane)
{
    if (lane->waiting.length > 0)
        queue_timer_start(lane->queue, lane->timer, 0);
}

void group_give_bytes(struct lane *lane)
{
    struct group *group = lane->queue->group;
    if (lane->sent_bytes == 0)
        return;
    group->sent_bytes -= lane->sent_bytes;
    lane->sent_bytes = 0;
    each_queue (queue, group) {
        try_again(&queue->done);
        try_again(&queue->nack);
    }
}

/* ---- views ---------------------------------------------------------------------------------- */

uint32_t group_shards(const struct group *group)
{
    return group->count;
}

const char *group_namespace(const struct group *group, uint32_t index)
{
    return queue_namespace(group->queues[index]);
}

struct group_shard group_shard(struct group *group, uint32_t index)
{
    const struct queue *queue = group->queues[index];
    const struct queue_view *view = queue_view(group->queues[index]);
    return (struct group_shard){
        .up = view->state == QUEUE_READY,
        .paused = view->paused,
        .reason = view->reason,
        .length = view->length,
        .delayed = view->delayed,
        .dead_listed = view->dead_listed,
        .results = view->results,
        .leases = queue->running.length,
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
    sum->connects += view->connects > 0 ? view->connects - 1 : 0;
    if (!*sum->version)
        text_copy(sum->version, sizeof sum->version, view->version);
}

/* Appends "shard 2: why". What does not fit is left out. */
static void add_reason(struct group *group, const struct queue *queue, const char *reason)
{
    size_t used = strlen(group->reason);
    snprintf(group->reason + used, sizeof group->reason - used, "%s%s%s", used > 0 ? "; " : "",
             queue->mark, reason);
}

const struct queue_view *group_view(struct group *group)
{
    struct queue_view *sum = &group->view;
    bool some_paused = false, all_paused = true;
    if (group->count == 1)
        return queue_view(group->queues[0]);
    *sum = (struct queue_view){.state = QUEUE_CONNECTING, .reason = group->reason, .connects = 1};
    group->reason[0] = '\0';
    each_queue (queue, group) {
        const struct queue_view *view = queue_view(queue);
        add_view(sum, view);
        if (view->state == QUEUE_READY) {
            sum->state = QUEUE_READY;
            some_paused |= view->paused;
            all_paused &= view->paused;
            continue;
        }
        if (view->state == QUEUE_WAITING && sum->state == QUEUE_CONNECTING)
            sum->state = QUEUE_WAITING;
        add_reason(group, queue, view->reason);
    }
    sum->paused = some_paused && all_paused;
    return sum;
}

void group_publish(struct group *group, const char *text, double ttl_s)
{
    each_queue (queue, group)
        queue_publish(queue, text, ttl_s);
}

/* ---- life ----------------------------------------------------------------------------------- */

static struct group *group_new(uint32_t count)
{
    struct group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->count = count;
    group->references = 1;
    return group;
}

struct group *group_of_one(void)
{
    return group_new(1);
}

void group_leave(struct group *group, struct queue *queue)
{
    if (queue)
        group->queues[queue->shard] = NULL;
    if (queue && group->first_lane && group->first_lane->queue == queue)
        group->first_lane = NULL;
    if (--group->references > 0)
        return;
    for (uint32_t i = 0; group->own && i < group->count; i++)
        options_clear(&group->own[i]);
    free(group->own);
    free(group);
}

/* The options of each queue, which live as long as the group. */
static bool take_options(struct group *group, const struct options *all, struct error *error)
{
    group->options = all;
    if (group->count == 1)
        return true;
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
    struct group *group = group_new((uint32_t)options->shards);
    if (!group) { /* uncovered: memory */
        error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for the queue");
        return NULL;
    }
    bool whole = take_options(group, options, error);
    for (uint32_t i = 0; whole && i < group->count; i++)
        whole = queue_add(group, i, loop, group->own ? &group->own[i] : options, instance, events,
                          error) != NULL;
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
    for (uint32_t i = 0; group->own && i < group->count; i++)
        if (!options_follow(&group->own[i], group->options, &error)) /* uncovered: memory */
            log_error("%s; shard %u goes on with its old options", error.text, i);
}

static void queue_ended(void *context)
{
    struct queue *queue = context;
    struct group *group = queue->group;
    group->ended[queue->shard] = true;
    if (--group->unclosed == 0)
        group->closed(group->closed_context);
}

void group_close(struct group *group, double timeout_s, void (*closed)(void *context),
                 void *context)
{
    bool again = group->closed != NULL;
    group->closed = closed;
    group->closed_context = context;
    if (!again)
        group->unclosed = group->count;
    each_queue (queue, group)
        if (!group->ended[queue->shard])
            queue_close(queue, timeout_s, queue_ended, queue);
}

void group_destroy(struct group *group)
{
    each_queue (queue, group)
        queue_destroy(queue);
    group_leave(group, NULL);
}
