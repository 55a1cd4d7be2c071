/* queue.c - creates, connects and closes the queue, and handles refusals by Redis. */
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

#define REDIS_VERSION_LEAST 602 /* 6.2: the first version with LMOVE and BLMOVE */
/* Fractions of results_max. They differ so that a list which is drained in pieces warns once. */
#define FILLS_AT 0.8
#define EMPTIES_AT 0.6
#define BREAKS_LEAST 5
/* Redis counts each reply as at least 20 KiB: one buffer for the answer of a script. */
#define BREAKS_ADVICE                                                                              \
    "; the limit of its replies, or that of a proxy, may be too small: set "                       \
    "client-output-buffer-limit normal to at least 32kb, or to 0"

/* ---- entries ------------------------------------------------------------------------------ */

struct entry *queue_entry_new(struct queue *queue)
{
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->queue = entry->lease.queue = queue;
    entry->lease.pending = entry;
    entry->lease.shard = queue->shard;
    entry->lease.shards = queue->group->count;
    entry->lease.attempts_max = (uint32_t)queue->options->attempts;
    list_push(&queue->entries, &entry->in_all);
    return entry;
}

void queue_entry_drop_answer(struct entry *entry)
{
    for (size_t i = 0; i < entry->value_count; i++) {
        free((char *)entry->values[i].key);
        free(entry->values[i].value);
    }
    free(entry->values);
    free(entry->result);
    free(entry->id);
    free(entry->reply_to);
    entry->values = NULL;
    entry->result = entry->id = entry->reply_to = NULL;
    entry->value_count = entry->bytes = 0;
    entry->unique = false;
}

void queue_end_batch(struct queue *queue)
{
    if (queue->events.batch_ended)
        queue->events.batch_ended(queue->events.context);
}

const char *queue_entry_label(const struct entry *entry, char label[LABEL_BYTES])
{
    size_t bytes;
    const char *text = lease_text(&entry->lease, &bytes);
    return label_job(label, lease_name(&entry->lease), NULL, text, bytes);
}

void queue_entry_free(struct entry *entry)
{
    queue_entry_drop_answer(entry);
    free((struct error *)entry->lease.denied);
    free(entry->lease.raw);
    free(entry->lease.head);
    free(entry);
}

size_t queue_unacknowledged(const struct queue *queue)
{
    return queue->entries.length - queue->running.length;
}

/* ---- the life of the queue ---------------------------------------------------------------- */

static void enter(struct queue *queue, enum queue_life life)
{
    assert(life > queue->life);
    queue->life = life;
}

/* ---- refusals ----------------------------------------------------------------------------- */

/* After shut(), queue->redis may be freed, and is NULL only when all handles are closed. */
static bool is_connected(const struct queue *queue)
{
    return queue->life != LIFE_SHUT && queue->redis && redis_up(queue->redis);
}

bool queue_ready(const struct queue *queue)
{
    return is_connected(queue) && !queue->backs_off;
}

static void on_timer(uv_timer_t *timer);

void queue_timer_start(struct queue *queue, enum queue_timer timer, uint64_t ms)
{
    if (queue->life != LIFE_SHUT)
        uv_timer_start(&queue->timers[timer], on_timer, ms, 0);
}

void queue_timer_ensure(struct queue *queue, enum queue_timer timer, uint64_t ms)
{
    if (!uv_is_active((uv_handle_t *)&queue->timers[timer]))
        queue_timer_start(queue, timer, ms);
}

static void pump_all(struct queue *queue)
{
    ack_pump(&queue->done);
    ack_pump(&queue->nack);
    start_pump(queue);
    fetch_pump(queue);
}

static void back_off(struct queue *queue, const char *error, enum redis_refusal refusal)
{
    uint64_t ms = queue->backoff_ms;
    if (refusal == REDIS_REFUSAL_AUTH)
        ms = (uint64_t)ceil(queue->options->auth_retry_s * 1000);
    else if (redis_error_is(error, "OOM")) /* uncovered: memory */
        ms = RETRY_OOM_MS;
    queue->backoff_ms *= 2;
    if (queue->backoff_ms > RETRY_LAST_MS)
        queue->backoff_ms = RETRY_LAST_MS;
    queue->backs_off = true;
    snprintf(queue->reason, sizeof queue->reason, "Redis refuses: %s%s", error,
             redis_advice(error));
    queue_timer_start(queue, TIMER_BACKOFF, ms);
}

void queue_refused(struct queue *queue, enum script script, const redisReply *reply, bool waits)
{
    char error[ERROR_TEXT_MAX] = "a reply of an unexpected form";
    if (reply->type == REDIS_REPLY_ERROR)
        text_copy(error, sizeof error, reply->str);
    text_make_printable(error);
    if (strcmp(queue->logged_refusal[script], error) != 0)
        log_warning("%sRedis refuses %s: %s%s", queue->mark, script_name(script), error,
                    redis_advice(error));
    text_copy(queue->logged_refusal[script], sizeof queue->logged_refusal[script], error);
    enum redis_refusal refusal = redis_refusal(error);
    if (refusal == REDIS_REFUSAL_RECONNECT)
        redis_drop(queue->redis, error);
    else if (waits)
        back_off(queue, error, refusal);
}

bool queue_is_cut(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "Protocol error");
}

void queue_lost(struct queue *queue, enum script script)
{
    queue->broken |= 1u << script;
}

bool queue_may_send(const struct queue *queue, enum script script)
{
    return queue_ready(queue) && (queue->proved || !(queue->broken >> script & 1));
}

/* The connection works: calls that may break it can be sent now. */
static void prove(struct queue *queue)
{
    if (queue->proved)
        return;
    queue->proved = true;
    queue->proved_ms = uv_now(queue->loop);
    queue_timer_ensure(queue, TIMER_DONE, 0); /* also sends FETCH */
    queue_timer_ensure(queue, TIMER_NACK, 0);
    queue_timer_ensure(queue, TIMER_START, 0);
}

bool queue_accepts(struct queue *queue, enum script script, const redisReply *reply, size_t least,
                   bool waits)
{
    if (!queue_is_cut(reply))
        prove(queue);
    if (!script_reply_is_array(reply, least)) {
        queue_refused(queue, script, reply, waits);
        return false;
    }
    if (*queue->logged_refusal[script])
        log_info("%sRedis accepts %s again", queue->mark, script_name(script));
    queue->logged_refusal[script][0] = '\0';
    if (script == SCRIPT_ID_FETCH || script == SCRIPT_ID_START || script == SCRIPT_ID_DONE ||
        script == SCRIPT_ID_NACK) {
        queue->backoff_ms = RETRY_FIRST_MS;
        queue->reason[0] = '\0';
    }
    redis_mark_healthy(queue->redis);
    queue->broken &= ~(1u << script);
    if (queue->broken == 0) {
        queue->breaks = 0;
        redis_reset_backoff(queue->redis);
    }
    queue->accepted_ms = uv_now(queue->loop);
    return true;
}

/* ---- checks of the server ----------------------------------------------------------------- */

/* Copies the value of a line "name:value" of INFO. `name` includes the colon. */
static bool info_value(const redisReply *reply, const char *name, char *value, size_t size)
{
    const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, name) : NULL;
    if (at)
        snprintf(value, size, "%.*s", (int)strcspn(at + strlen(name), "\r\n"), at + strlen(name));
    return at != NULL;
}

/* A hash tag puts all keys of the namespace in one slot, as scripts require. */
static bool has_hash_tag(const char *ns)
{
    const char *open = strchr(ns, '{');
    return open && open[1] && open[1] != '}' && strchr(open, '}');
}

static void server_read(void *context, redisReply *reply)
{
    struct queue *queue = context;
    char *version = queue->view.version, mode[32], policy[64];
    const char *ns = queue->options->namespace;
    unsigned major, minor;
    if (!reply)
        return;
    queue->server_checked = true;
    bool known = info_value(reply, "redis_version:", version, sizeof queue->view.version);
    text_make_printable(version);
    if (known && sscanf(version, "%u.%u", &major, &minor) == 2 &&
        major * 100 + minor < REDIS_VERSION_LEAST) /* uncovered: server */
        log_error("%sRedis %s is too old: gpuimgd needs 6.2 or later", queue->mark, version);
    if (info_value(reply, "redis_mode:", mode, sizeof mode) && strcmp(mode, "cluster") == 0 &&
        !has_hash_tag(ns)) /* uncovered: sentinel */
        log_error("Redis is a Cluster and the namespace %s has no hash tag: its keys are in many "
                  "slots and no script can run; set namespace = {%s}", ns, ns);
    if (info_value(reply, "maxmemory_policy:", policy, sizeof policy) &&
        strcmp(policy, "noeviction") != 0)
        log_warning("%sRedis has maxmemory-policy %s: it may throw jobs and results away; set "
                    "maxmemory-policy noeviction", queue->mark, policy);
}

/* ---- up and down -------------------------------------------------------------------------- */

static void main_up(void *context)
{
    struct queue *queue = context;
    queue->view.connects++;
    queue->connected = true;
    queue->proved = false;
    queue->backs_off = false;
    queue->reason[0] = '\0';
    queue->backoff_ms = RETRY_FIRST_MS;
    queue->idle = false;
    listen_forget(queue);
    uv_timer_stop(&queue->timers[TIMER_BACKOFF]);
    /* Redis may run a FETCH of the old connection after this RESUME. A second RESUME follows with
     * the next RENEW. */
    queue->resumes_due = 2;
    lease_resume(queue);
    lease_renew(queue);
    /* Randomized, so that daemons that connected together do not renew together. */
    double part = 0.5 + 0.5 * erand48(queue->random_state);
    queue_timer_start(queue, TIMER_RENEW, (uint64_t)ceil(queue->options->renew_s * part * 1000));
    if (!queue->server_checked) {
        redis_ask(queue->redis, 0, server_read, queue, "INFO");
        lease_reap(queue, false);
    }
    /* After an outage all leases seem expired. The delay lets their daemons renew them. */
    queue->reap.scan_time = -1;
    lease_reap_later(queue);
    pump_all(queue);
    read_pump(queue);
}

/* Advice after connections that broke in a row under a call, although no other call was answered
 * either: no smaller call helps. */
static const char *advice_after_breaks(struct queue *queue)
{
    if (!queue->connected || queue->proved || queue->broken == 0)
        return "";
    if (++queue->breaks == BREAKS_LEAST)
        log_error("%s%d connections in a row broke before Redis answered a call" BREAKS_ADVICE,
                  queue->mark, BREAKS_LEAST);
    return queue->breaks >= BREAKS_LEAST ? BREAKS_ADVICE : "";
}

static void main_down(void *context, const char *reason)
{
    struct queue *queue = context;
    snprintf(queue->reason, sizeof queue->reason, "%s%s%s", reason, redis_advice(reason),
             advice_after_breaks(queue));
    queue->connected = false;
    read_down(queue, reason);
    if (queue->group->count > 1)
        queue_end_batch(queue); /* its ended leases need no places now: group_parked */
}

static void blocking_up(void *context)
{
    fetch_blocking_up(context);
}

static void blocking_down(void *context, const char *reason)
{
    (void)context;
    (void)reason; /* the idle timer finds jobs too, only later */
}

const struct queue_view *queue_view(struct queue *queue)
{
    struct queue_view *view = &queue->view;
    bool up = is_connected(queue);
    view->state = !up ? QUEUE_CONNECTING : *queue->reason ? QUEUE_WAITING : QUEUE_READY;
    if (!up && !*queue->reason)
        text_copy(queue->reason, sizeof queue->reason, "not connected yet");
    view->reason = queue->reason;
    view->unacknowledged = queue_unacknowledged(queue);
    view->oldest_s =
        view->length > 0 ? (double)(uv_now(queue->loop) - queue->age.since_ms) / 1e3 : 0;
    return view;
}

/* ---- statistics --------------------------------------------------------------------------- */

/* Errors are ignored here: the next FETCH reports the same error. */
static void published(void *context, redisReply *reply)
{
    struct queue *queue = context;
    (void)reply;
    queue->publishing = false;
}

void queue_publish(struct queue *queue, const char *text, double ttl_s)
{
    if (queue_ready(queue) && !queue->publishing && !queue_is_closing(queue))
        queue->publishing =
            redis_ask(queue->redis, 0, published, queue, "SET %s:stats:%s %s PX %.0f",
                      queue->options->namespace, queue->instance, text, ceil(ttl_s * 1000));
}

static void counted(void *length, redisReply *reply)
{
    if (reply && reply->type == REDIS_REPLY_INTEGER)
        *(uint64_t *)length = (uint64_t)reply->integer;
}

const char *queue_results_key(const struct queue *queue)
{
    return strcmp(queue->options->results, "stream") == 0 ? "results:stream" : "results";
}

static void results_counted(void *context, redisReply *reply)
{
    struct queue *queue = context;
    const char *ns = queue->options->namespace;
    counted(&queue->view.results, reply);
    uint64_t most = queue->options->results_max, count = queue->view.results;
    double share = most > 0 ? (double)count / (double)most : 0;
    if (share >= FILLS_AT && !queue->results_fill)
        log_warning("%s:%s holds %llu of at most %llu results (results_max): the oldest are "
                    "lost when it is full; read them, or set results = id or none", ns,
                    queue_results_key(queue), (unsigned long long)count, (unsigned long long)most);
    else if (share < EMPTIES_AT && queue->results_fill)
        log_info("%s:%s holds %llu of at most %llu results again", ns, queue_results_key(queue),
                 (unsigned long long)count, (unsigned long long)most);
    queue->results_fill = share >= (queue->results_fill ? EMPTIES_AT : FILLS_AT);
}

/* Results that every consumer group has acknowledged are deleted first, so that the length counts
 * unread ones. */
static void ask_results(struct queue *queue)
{
    if (strcmp(queue->options->results, "stream") != 0) {
        redis_ask(queue->redis, 0, results_counted, queue, "LLEN %s:results",
                  queue->options->namespace);
        return;
    }
    struct script_call *call = queue_call(queue, SCRIPT_ID_FORGET, queue_results_key(queue));
    script_call_send(call, queue->redis, results_counted, queue);
}

/* With results = list these are three commands of a microsecond each. With a stream, FORGET
 * replaces one of them, and costs more with many groups or entries to delete. They wait until Redis
 * has accepted the RENEW, which proves that all keys are on one node. In a Cluster without a hash
 * tag in the namespace they are not, and MOVED would lead the connection from node to node. Error
 * replies are ignored: the next FETCH reports the same error. */
void queue_ask_lengths(struct queue *queue)
{
    const char *ns = queue->options->namespace;
    ask_results(queue);
    redis_ask(queue->redis, 0, counted, &queue->view.dead_listed, "LLEN %s:dead", ns);
    redis_ask(queue->redis, 0, counted, &queue->view.delayed, "ZCARD %s:delayed", ns);
}

/* ---- creation ----------------------------------------------------------------------------- */

static void lane_init(struct lane *lane, struct queue *queue, enum script script,
                      enum queue_timer timer)
{
    lane->queue = queue;
    lane->script = script;
    lane->timer = timer;
    list_init(&lane->waiting);
    list_init(&lane->sent);
}

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
        snprintf(queue->mark, sizeof queue->mark, "shard %u: ", index);
    queue->options = options;
    queue->instance = instance;
    queue->loop = loop;
    queue->address = address;
    queue->events = *events;
    queue->backoff_ms = RETRY_FIRST_MS;
    /* Without entropy all delays follow one sequence, which is allowed. */
    (void)!getentropy(queue->random_state, sizeof queue->random_state);
    queue->horizon = -1;
    queue->reap.scan_time = -1;
    list_init(&queue->entries);
    list_init(&queue->running);
    list_init(&queue->asks);
    list_init(&queue->asked);
    list_init(&queue->reads);
    lane_init(&queue->done, queue, SCRIPT_ID_DONE, TIMER_DONE);
    lane_init(&queue->nack, queue, SCRIPT_ID_NACK, TIMER_NACK);
    return queue;
}

struct queue *queue_create(uv_loop_t *loop, const struct options *options, const char *instance,
                           const struct queue_events *events, struct error *error)
{
    struct group *group = group_of_one();
    if (!group) {
        error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for the queue");
        return NULL;
    }
    struct queue *queue = queue_add(group, 0, loop, options, instance, events, error);
    group_leave(group, NULL); /* the queue keeps it */
    return queue;
}

const char *queue_namespace(const struct queue *queue)
{
    return queue->options->namespace;
}

void queue_start(struct queue *queue)
{
    queue->age.since_ms = queue->age.mark_ms = uv_now(queue->loop);
    struct redis_options how = {
        .conf = queue->options, .logs = true, .mark = queue->mark,
        .random_state = queue->random_state};
    struct redis_events main_events = {queue, main_up, main_down, NULL};
    struct redis_events blocking_events = {queue, blocking_up, blocking_down, NULL};
    assert(queue->life == LIFE_NEW);
    how.route = queue->route = route_create(queue->loop, &queue->address, &how);
    if (queue->route)
        queue->redis = redis_create(queue->loop, &how, &main_events);
    how.logs = false;
    if (queue->redis)
        queue->blocking = redis_create(queue->loop, &how, &blocking_events);
    if (!queue->blocking) { /* uncovered: memory */
        log_error("out of memory for the connections to Redis");
        abort(); /* at the start, before any lease was taken */
    }
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        uv_timer_init(queue->loop, &queue->timers[i]);
        queue->timers[i].data = queue;
    }
    queue->open_handles = TIMER_COUNT + 3;
    enter(queue, LIFE_RUNS);
    queue->accepted_ms = uv_now(queue->loop);
    redis_start(queue->redis);
    redis_start(queue->blocking);
}

void queue_set_places(struct queue *queue, uint32_t places)
{
    queue->group->places = places;
    if (queue->life == LIFE_NEW)
        return;
    fetch_check_watch(queue);
    fetch_pump(queue);
}

/* ---- close -------------------------------------------------------------------------------- */

static void free_all(struct queue *queue)
{
    struct group *group = queue->group;
    struct list_node *node;
    start_free_all(queue);
    while ((node = list_pop(&queue->entries)) != NULL)
        queue_entry_free(container_of(node, struct entry, in_all));
    read_free_all(queue);
    group_leave(group, queue);
    free(queue);
}

static void part_closed(void *context)
{
    struct queue *queue = context;
    if (--queue->open_handles > 0)
        return;
    queue->redis = queue->blocking = queue->listening = NULL;
    queue->route = NULL;
    if (queue->destroyed)
        free_all(queue);
    else
        queue->closed(queue->closed_context);
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
    if (queue_unacknowledged(queue) > 0)
        log_warning("%sRedis did not acknowledge %zu finished jobs: they will run again",
                    queue->mark, queue_unacknowledged(queue));
    for (size_t i = 0; i < TIMER_COUNT; i++)
        uv_close((uv_handle_t *)&queue->timers[i], timer_closed);
    redis_close(queue->blocking, part_closed, queue);
    if (queue->listening)
        redis_close(queue->listening, part_closed, queue);
    redis_close(queue->redis, part_closed, queue);
    route_close(queue->route, part_closed, queue);
}

/* By a timer: the caller may be route.c, which is telling each connection that the server has
 * changed. It must not find the connections closed and the route freed. */
static void shut_soon(struct queue *queue)
{
    queue_timer_start(queue, TIMER_SHUT, 0);
}

static void left(void *context, redisReply *reply)
{
    struct queue *queue = context;
    (void)reply;
    if (--queue->leaves_out == 0)
        shut_soon(queue);
}

bool queue_leave(struct queue *queue, const char *watch)
{
    struct script_call *call = queue_call(queue, SCRIPT_ID_LEAVE, "inst", "alone:owner");
    script_call_ns_key(call, "stats:%s", queue->instance);
    script_call_ns_key(call, "leases:%s", queue->instance);
    script_call_ns_key(call, "watcher");
    script_call_ns_key(call, "wake");
    script_call_text(call, queue->instance);
    script_call_ms(call, queue->options->lease_s);
    script_call_text(call, watch);
    bool sent = script_call_send(call, queue->redis, left, queue);
    queue->leaves_out += sent;
    return sent;
}

/* Leases that this daemon does not know return to the queue before its name goes. */
static bool awaits_resume(struct queue *queue)
{
    if (!redis_up(queue->redis))
        return false;
    if (queue->resumes_due > 0 && queue->resumes_out == 0)
        lease_resume(queue);
    return queue->resumes_due > 0 || queue->resumes_out > 0;
}

/* LEAVE must be the last call that writes the daemon's name: after NOSCRIPT, a call that was sent
 * before it is sent again. */
void queue_close_check(struct queue *queue)
{
    if (queue->life != LIFE_CLOSING || queue->running.length > 0 ||
        queue_unacknowledged(queue) > 0 || queue->fetch_out || queue->renews_out > 0 ||
        queue->reap.step == REAP_RUNS || awaits_resume(queue))
        return;
    enter(queue, LIFE_LEAVING);
    if (!queue_leave(queue, "none"))
        shut_soon(queue);
}

void queue_close(struct queue *queue, double timeout_s, void (*closed)(void *context),
                 void *context)
{
    if (queue->life == LIFE_NEW) { /* uncovered: moment */
        closed(context);
        return;
    }
    if (queue->life < LIFE_CLOSING) /* else a second call, with another timeout */
        enter(queue, LIFE_CLOSING);
    queue->closed = closed;
    queue->closed_context = context;
    uv_timer_stop(&queue->timers[TIMER_IDLE]);
    fetch_check_watch(queue);
    queue_timer_start(queue, TIMER_CLOSE, (uint64_t)ceil(fmax(timeout_s, 0) * 1000));
    /* By a timer: `closed` must not run inside this call. */
    queue_timer_start(queue, TIMER_FETCH, 0);
}

void queue_destroy(struct queue *queue)
{
    if (queue->open_handles == 0) {
        free_all(queue);
        return;
    }
    queue->destroyed = true; /* part_closed frees the queue */
    read_cancel_all(queue);
    shut(queue);
}

/* Each timer sends only its own call: START, DONE and NACK go out in the order in which the daemon
 * asked and ended leases. A unique job that was asked about before the first job with its id ended
 * waits for that job; asked about afterwards, it may be a retry of it. */
static void on_timer(uv_timer_t *timer)
{
    struct queue *queue = timer->data;
    switch ((enum queue_timer)(timer - queue->timers)) {
    case TIMER_BACKOFF:
        queue->backs_off = false;
        pump_all(queue);
        return;
    case TIMER_IDLE: fetch_idle_over(queue); return;
    case TIMER_START: start_pump(queue); return;
    case TIMER_RENEW: lease_renew_due(queue); return;
    case TIMER_REAP:
        lease_reap_later(queue);
        lease_reap(queue, true);
        return;
    case TIMER_READ: read_pump(queue); return;
    case TIMER_CLOSE:
    case TIMER_SHUT: shut(queue); return;
    case TIMER_DONE: ack_pump(&queue->done); break;
    case TIMER_NACK: ack_pump(&queue->nack); break;
    case TIMER_FETCH:
    case TIMER_COUNT: break;
    }
    /* A FETCH and the close may wait for the end of the last lease. */
    fetch_pump(queue);
    queue_close_check(queue);
}
