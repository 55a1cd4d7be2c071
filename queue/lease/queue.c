#include "queue/lease/queue.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/log.h"
#include "conf/text.h"
#include "queue/lease/lease_impl.h"

static void enter(struct queue *queue, enum queue_life life)
{
    assert(life > queue->life);
    queue->life = life;
}

static void pump_all(struct queue *queue)
{
    end_pump(&queue->done);
    end_pump(&queue->nack);
    start_pump(queue);
    timer_turn(queue);
}

/* ---- up and down ----------------------------------------------------------------------------- */

static void main_up(void *context)
{
    struct queue *queue = context;
    queue->view.connects++;
    calls_opened(queue);
    idle_end(queue);
    listen_forget(queue);
    lease_up(queue);
    if (!queue->server_checked)
        server_check(queue);
    reap_up(queue, !queue->server_checked);
    pump_all(queue);
    read_pump(queue);
    store_up(queue);
}

static void main_down(void *context, const char *reason)
{
    struct queue *queue = context;
    calls_broke(queue, reason);
    read_down(queue, reason);
    /* The daemon then offers more places: it keeps fewer slots in reserve while ends wait for a
     * shard that is away (group_waiting_ends). */
    entries_end_batch(queue);
}

static void blocking_up(void *context)
{
    wait_up(context);
}

static void blocking_down(void *context, const char *reason)
{
    (void)context;
    (void)reason; /* not logged: TIMER_IDLE finds jobs as well, only later */
}

const struct queue_view *queue_view(struct queue *queue)
{
    struct queue_view *view = &queue->view;
    bool up = calls_up(queue);
    view->state = !up ? QUEUE_CONNECTING : *queue->calls.reason ? QUEUE_WAITING : QUEUE_READY;
    if (!up && !*queue->calls.reason)
        text_copy(queue->calls.reason, sizeof queue->calls.reason, "not connected yet");
    view->reason = queue->calls.reason;
    view->unacknowledged = entries_unacknowledged(queue);
    view->oldest_s =
        view->length > 0 ? (double)(uv_now(queue->loop) - queue->lengths.age.since_ms) / 1e3 : 0;
    return view;
}

/* ---- statistics ------------------------------------------------------------------------------ */

/* Errors are ignored here: the next FETCH reports the same error. */
static void published(void *context, redisReply *reply)
{
    struct queue *queue = context;
    (void)reply;
    queue->publishing = false;
}

void queue_publish(struct queue *queue, const char *text, double ttl_s)
{
    if (calls_ready(queue) && !queue->publishing && !queue_is_closing(queue))
        queue->publishing =
            redis_ask(queue->redis, 0, published, queue, "SET %s:stats:%s %s PX %.0f",
                      queue->options->namespace, queue->instance, text, ceil(ttl_s * 1000));
}

/* ---- creation -------------------------------------------------------------------------------- */

static void timer_expired(struct queue *queue, enum queue_timer timer);

struct queue *queue_add(struct group *group, uint32_t index, uv_loop_t *loop,
                        const struct options *options, const char *instance,
                        const struct queue_events *events, struct error *error)
{
    struct redis_address address;
    if (redis_address_parse(&address, options->redis, error) != STATUS_OK)
        return NULL;
    struct queue *queue = calloc(1, sizeof *queue);
    if (!queue) {
        error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for the queue");
        return NULL;
    }
    queue->group = group;
    queue->shard = index;
    group->queues[index] = queue;
    group->references++;
    if (group->count > 1)
        snprintf(queue->log_prefix, sizeof queue->log_prefix, "shard %u: ", index);
    queue->options = options;
    queue->instance = instance;
    queue->loop = loop;
    queue->address = address;
    queue->events = *events;
    queue->calls.backoff_ms = RETRY_FIRST_MS;
    /* If this fails, the delays of all daemons follow the same sequence, which is harmless. */
    (void)!getentropy(queue->random_state, sizeof queue->random_state);
    queue->start.horizon = -1;
    queue->reap.scan_time = -1;
    list_init(&queue->entries.all);
    list_init(&queue->entries.running);
    list_init(&queue->start.asks);
    list_init(&queue->start.asked);
    list_init(&queue->reads);
    store_init(queue);
    outbox_init(&queue->done, queue, SCRIPT_ID_DONE, TIMER_DONE);
    outbox_init(&queue->nack, queue, SCRIPT_ID_NACK, TIMER_NACK);
    return queue;
}

const char *queue_namespace(const struct queue *queue)
{
    return queue->options->namespace;
}

void queue_start(struct queue *queue)
{
    lengths_note_empty(queue, uv_now(queue->loop));
    struct redis_options how = {.conf = queue->options,
                                .logs = true,
                                .log_prefix = queue->log_prefix,
                                .random_state = queue->random_state};
    struct redis_events main_events = {queue, main_up, main_down, NULL};
    struct redis_events blocking_events = {queue, blocking_up, blocking_down, NULL};
    assert(queue->life == LIFE_NEW);
    how.route = queue->route = route_create(queue->loop, &queue->address, &how);
    if (queue->route)
        queue->redis = redis_create(queue->loop, &how, &main_events);
    how.logs = false;
    if (queue->redis)
        queue->wait.redis = redis_create(queue->loop, &how, &blocking_events);
    if (!queue->wait.redis) { /* uncovered: memory */
        log_error("out of memory for the connections to Redis");
        abort(); /* no lease has been taken yet */
    }
    queue->timers.expired = timer_expired;
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        uv_timer_init(queue->loop, &queue->timers.each[i]);
        queue->timers.each[i].data = queue;
    }
    queue->ending.open_handles = TIMER_COUNT + 3; /* route, main and blocking connection */
    enter(queue, LIFE_RUNS);
    queue->calls.accepted_ms = uv_now(queue->loop);
    redis_start(queue->redis);
    redis_start(queue->wait.redis);
}

/* ---- close ----------------------------------------------------------------------------------- */

static void free_all(struct queue *queue)
{
    struct group *group = queue->group;
    struct list_node *node;
    start_free_all(queue);
    while ((node = list_pop(&queue->entries.all)) != NULL)
        entry_free(container_of(node, struct entry, in_all));
    read_free_all(queue);
    store_free_all(queue);
    members_leave(group, queue);
    free(queue);
}

static void part_closed(void *context)
{
    struct queue *queue = context;
    if (--queue->ending.open_handles > 0)
        return;
    queue->redis = queue->wait.redis = queue->listen.redis = NULL;
    queue->route = NULL;
    if (queue->ending.closed)
        queue->ending.closed(queue->ending.context);
    else
        free_all(queue);
}

static void timer_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void shut(struct queue *queue)
{
    if (queue->life == LIFE_SHUT) /* uncovered: moment */
        return;
    enter(queue, LIFE_SHUT);
    if (entries_unacknowledged(queue) > 0)
        log_warning("%sRedis did not acknowledge %zu finished jobs: they will run again",
                    queue->log_prefix, entries_unacknowledged(queue));
    for (size_t i = 0; i < TIMER_COUNT; i++)
        uv_close((uv_handle_t *)&queue->timers.each[i], timer_closed);
    redis_close(queue->wait.redis, part_closed, queue);
    if (queue->listen.redis)
        redis_close(queue->listen.redis, part_closed, queue);
    redis_close(queue->redis, part_closed, queue);
    route_close(queue->route, part_closed, queue);
}

/* Whether the close must wait for RESUME, which returns leases that this daemon does not know. They
 * must be returned before LEAVE removes the daemon's name. */
static bool awaits_resume(struct queue *queue)
{
    if (!redis_up(queue->redis))
        return false;
    if (queue->leases.resumes_due > 0 && queue->leases.resumes_out == 0)
        lease_resume(queue);
    return queue->leases.resumes_due > 0 || queue->leases.resumes_out > 0;
}

/* Whether LEAVE may be sent. No other call that writes the daemon's name may be outstanding: after
 * the reply NOSCRIPT it would be sent again, after LEAVE. */
static bool can_leave(struct queue *queue)
{
    return queue->entries.all.length == 0 && !queue_is_fetching(queue) &&
           queue->leases.renews_out == 0 && queue->reap.state != REAP_RUNS && !awaits_resume(queue);
}

static void close_pump(struct queue *queue)
{
    if (queue->life == LIFE_CLOSING && can_leave(queue)) {
        enter(queue, LIFE_LEAVING);
        (void)lease_leave(queue, "none");
    }
    if (queue->life == LIFE_LEAVING && queue->leases.leaves_out == 0)
        shut(queue);
}

void queue_close(struct queue *queue, double timeout_s, void (*closed)(void *context),
                 void *context)
{
    if (queue->life == LIFE_NEW) { /* uncovered: moment */
        closed(context);
        return;
    }
    if (queue->life < LIFE_CLOSING) /* else this is a second call */
        enter(queue, LIFE_CLOSING);
    queue->ending.closed = closed;
    queue->ending.context = context;
    uv_timer_stop(&queue->timers.each[TIMER_IDLE]);
    timer_start(queue, TIMER_CLOSE, (uint64_t)ceil(fmax(timeout_s, 0) * 1000));
    timer_turn(queue);
}

void queue_destroy(struct queue *queue)
{
    if (queue->ending.open_handles == 0) {
        free_all(queue);
        return;
    }
    queue->ending.closed = NULL; /* part_closed frees the queue */
    read_cancel_all(queue);
    store_cancel_all(queue);
    shut(queue);
}

/* ---- timers ---------------------------------------------------------------------------------- */

/* Sends FETCH, the blocking commands and LEAVE, and passes the watch on, if an event has made that
 * possible. Only TIMER_TURN calls this function: the event may be a call of the daemon or of
 * route.c, and no callback may run inside those.
 *
 * START, DONE and NACK have their own timers and are also sent after their replies. So they reach
 * Redis in the order in which the daemon asked about leases and ended leases. This order matters: a
 * unique job that asks before the first job with its id ends must wait for that job; one that asks
 * later may be a retry of it. */
static void queue_turn(struct queue *queue)
{
    fetch_all(queue->group);
    watch_check(queue);
    wait_pump(queue);
    close_pump(queue);
}

static void timer_expired(struct queue *queue, enum queue_timer timer)
{
    switch (timer) {
    case TIMER_TURN: queue_turn(queue); return;
    case TIMER_BACKOFF:
        calls_backed_off(queue);
        pump_all(queue);
        break;
    case TIMER_FETCH: break;
    case TIMER_IDLE:
        wait_again(queue);
        idle_over(queue);
        break;
    case TIMER_START: start_pump(queue); break;
    case TIMER_DONE:
        end_pump(&queue->done);
        break;
    case TIMER_NACK:
        end_pump(&queue->nack);
        break;
    case TIMER_RENEW:
        lease_renew_due(queue);
        end_drop_expired(queue);
        break;
    case TIMER_REAP: reap_due(queue); break;
    case TIMER_READ: read_pump(queue); break;
    case TIMER_STORE:
        store_pump(queue->group);
        break;
    case TIMER_CLOSE: shut(queue); break;
    case TIMER_COUNT: break;
    }
    timer_turn(queue);
}
