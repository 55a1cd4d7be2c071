#include "queue/lease/store.h"

/* uncovered file: moment */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/log.h"
#include "conf/text.h"
#include "queue/lease/lease_impl.h"

#define PAUSE_FIRST_MS 100
#define PAUSE_LAST_MS  5000
#define PAUSE_OOM_MS   1000
/* Redis permits no smaller proto-max-bulk-len. */
#define BULK_BYTES_LEAST MIB
/* The words after the value: "EX" and the TTL. */
#define TAIL_BYTES_MAX 64
#define HEAD_BYTES_MAX (JOB_KEY_BYTES_MAX + 96)

struct store {
    struct list_node node;
    struct rank rank;
    struct queue *queue;
    uint8_t *value; /* malloc'd: `bytes`, and the end of the command after them */
    size_t bytes, tail_bytes;
    int words; /* of the command */
    queue_store_cb callback;
    void *context;
    unsigned holders; /* the list, and each write that is not complete */
    unsigned cuts;    /* calls of this suspect alone that Redis did not accept */
    unsigned denials; /* NOPERMs, although the key is permitted */
    bool out;         /* a command is outstanding, and the permit is held */
    bool cancelled;
    bool suspect;
    char reason[80]; /* of a NOPERM, while the probes are outstanding */
    char key[];
};

static void answered(void *context, redisReply *reply);

/* ---- one store ------------------------------------------------------------------------------ */

static void leave(void *context)
{
    struct store *store = context;
    if (--store->holders > 0)
        return;
    free(store->value);
    free(store);
}

static void drop(struct store *store)
{
    list_remove(&store->queue->stores.all, &store->node);
    leave(store);
}

static void finish(struct store *store, const struct error *error)
{
    queue_store_cb callback = store->callback;
    void *context = store->context;
    drop(store);
    callback(context, error);
}

static void fail_too_large(struct store *store)
{
    struct error error = {0};
    char what[128];
    snprintf(what, sizeof what, "the output for the key \"%.80s\"", store->key);
    isolate_describe(store->queue, &error, store->bytes, what);
    finish(store, &error);
}

static bool take_permit(struct store *store)
{
    struct store_permits *permits = &store->queue->group->stores;
    if (permits->out >= STORES_MAX ||
        (permits->bytes > 0 && permits->bytes + store->bytes > STORES_BYTES) ||
        !outbox_lend_bytes(store->queue->group, store->bytes))
        return false;
    permits->out++;
    permits->bytes += store->bytes;
    store->out = true;
    store->queue->stores.out++;
    store->queue->stores.suspect_out = store->suspect;
    return true;
}

static void give_permit(struct store *store)
{
    struct group *group = store->queue->group;
    group->stores.out--;
    group->stores.bytes -= store->bytes;
    store->out = false;
    store->queue->stores.out--;
    store->queue->stores.suspect_out = false;
    outbox_end_loan(group, store->bytes);
    store_wake(group);
}

static bool send_set(struct store *store)
{
    char head[HEAD_BYTES_MAX];
    int length = snprintf(head, sizeof head, "*%d\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n",
                          store->words, strlen(store->key), store->key, store->bytes);
    const struct link_body body = {(const char *)store->value, store->bytes + store->tail_bytes,
                                   leave, store};
    store->holders++;
    bool sent = redis_send(store->queue->redis, head, (size_t)length, &body, 0, answered, store);
    store->holders -= !sent;
    return sent;
}

/* ---- refusals ------------------------------------------------------------------------------- */

static void pause_for(struct queue *queue, uint64_t ms)
{
    struct stores *stores = &queue->stores;
    stores->refused = true;
    stores->due_ms = uv_now(queue->loop) + ms;
    timer_start(queue, TIMER_STORE, ms);
}

/* Redis refuses SETs for a reason that is not of this one: it is sent again after a pause. */
static void wait_for_redis(struct store *store, const char *reply)
{
    struct queue *queue = store->queue;
    struct stores *stores = &queue->stores;
    enum redis_refusal refusal = redis_refusal(reply);
    char error[ERROR_TEXT_MAX];
    text_copy(error, sizeof error, reply);
    text_make_printable(error);
    if (strcmp(stores->logged, error) != 0)
        log_warning("%sRedis refuses SET of the key \"%.80s\": %s%s", queue->log_prefix, store->key,
                    error, redis_advice(error));
    text_copy(stores->logged, sizeof stores->logged, error);
    uint64_t ms = refusal == REDIS_REFUSAL_AUTH ? (uint64_t)ceil(queue->options->auth_retry_s * 1e3)
                  : redis_error_is(error, "OOM") ? PAUSE_OOM_MS
                                                 : stores->pause_ms;
    stores->pause_ms = stores->pause_ms * 2 < PAUSE_LAST_MS ? stores->pause_ms * 2 : PAUSE_LAST_MS;
    pause_for(queue, ms);
    if (refusal == REDIS_REFUSAL_RECONNECT)
        redis_drop(queue->redis, error);
}

/* A reply to a probe. Returns false if the store is over, or has no use for the reply. */
static bool is_probed(struct store *store, redisReply *reply)
{
    if (store->cancelled || !reply) {
        give_permit(store);
        if (store->cancelled)
            drop(store);
        return false;
    }
    return true;
}

static bool is_denied(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && redis_error_is(reply->str, "NOPERM");
}

/* The second time, the administrator has not just permitted the key: the command is denied. The
 * queue itself needs no SET, so all else goes on. */
static void command_denied(struct store *store)
{
    struct error error = {0};
    if (++store->denials < 2)
        return; /* give_permit has made it due again */
    error_set(
        &error, STATUS_PATH_REFUSED,
        "Redis does not let this daemon run SET, which stores the key \"%.80s\" (%.80s); permit "
        "the command for the daemon's user (ACL SETUSER NAME +set)",
        store->key, store->reason);
    finish(store, &error);
}

static void key_probed(void *context, redisReply *reply)
{
    struct store *store = context;
    struct error error = {0};
    if (!is_probed(store, reply))
        return;
    give_permit(store);
    if (is_denied(reply)) {
        denial_describe(&error, store->key, store->reason);
        finish(store, &error);
    } else {
        command_denied(store);
    }
}

/* The control: a key of the queue itself. */
static void control_probed(void *context, redisReply *reply)
{
    struct store *store = context;
    if (!is_probed(store, reply))
        return;
    if (!is_denied(reply) && redis_ask(store->queue->redis, 0, key_probed, store, "EVAL %s 1 %s",
                                       "return 1", store->key))
        return;
    give_permit(store);
    wait_for_redis(store, store->reason);
}

/* NOPERM does not say whether the key is denied or the command. Keeps the permit meanwhile. */
static bool probe(struct store *store, const char *reply)
{
    struct queue *queue = store->queue;
    text_copy(store->reason, sizeof store->reason, reply);
    text_make_printable(store->reason);
    return redis_ask(queue->redis, 0, control_probed, store, "EVAL %s 1 %s:lease", "return 1",
                     queue->options->namespace);
}

/* ---- replies -------------------------------------------------------------------------------- */

/* Redis did not accept the SET, and this value may be the reason. Returns false if the store has
 * failed. */
static bool suspect(struct store *store, bool is_likely)
{
    bool was_suspect = store->suspect;
    store->suspect = store->bytes > ISOLATE_BYTES_LEAST;
    if (!store->suspect || (!was_suspect && !is_likely) || ++store->cuts < ISOLATE_CUTS_MAX)
        return true;
    fail_too_large(store);
    return false;
}

static void refused(struct store *store, const char *error)
{
    bool is_other = redis_refusal(error) == REDIS_REFUSAL_OTHER;
    if (!is_other || suspect(store, true))
        wait_for_redis(store, error);
}

static void stored(struct store *store)
{
    struct queue *queue = store->queue;
    struct stores *stores = &queue->stores;
    if (*stores->logged)
        log_info("%sRedis accepts SET again", queue->log_prefix);
    stores->logged[0] = '\0';
    stores->refused = false;
    stores->due_ms = 0;
    stores->pause_ms = PAUSE_FIRST_MS;
    finish(store, NULL);
}

static void answered(void *context, redisReply *reply)
{
    struct store *store = context;
    bool is_lost = !reply || calls_is_cut(reply),
         is_error = reply && !is_lost && reply->type == REDIS_REPLY_ERROR;
    if (is_error && !store->cancelled && is_denied(reply) && probe(store, reply->str))
        return;
    give_permit(store);
    if (store->cancelled)
        drop(store);
    else if (is_lost)
        (void)suspect(store, reply != NULL);
    else if (is_error)
        refused(store, reply->str);
    else
        stored(store);
}

/* ---- sending -------------------------------------------------------------------------------- */

/* Whether an end is tried alone, to see if it breaks connections: no large SET must do so now. */
static bool is_end_doubtful(const struct outbox *outbox)
{
    list_each (node, &outbox->sent)
        if (entry_of(node)->doubtful)
            return true;
    list_each (node, &outbox->waiting)
        if (entry_of(node)->doubtful)
            return true;
    return false;
}

static void bound_answered(void *context, redisReply *reply)
{
    struct queue *queue = context;
    if (!reply)
        return;
    isolate_take_bound(queue, reply);
    queue->stores.bound = BOUND_KNOWN;
    store_wake(queue->group);
}

/* Whether it is known if Redis takes so many bytes, or cannot be known. */
static bool is_bound_known(struct store *store)
{
    struct queue *queue = store->queue;
    if (store->bytes <= BULK_BYTES_LEAST)
        return true;
    if (queue->stores.bound == BOUND_UNKNOWN &&
        redis_ask(queue->redis, 0, bound_answered, queue, "CONFIG GET proto-max-bulk-len"))
        queue->stores.bound = BOUND_ASKED;
    return queue->stores.bound == BOUND_KNOWN;
}

static bool is_over_bound(const struct store *store)
{
    const struct queue *queue = store->queue;
    return queue->stores.bound == BOUND_KNOWN && queue->isolate.bulk_max > 0 &&
           store->bytes > queue->isolate.bulk_max;
}

/* NEXT: it is sent, or others may be sent before it. LAST: no other of its queue may be sent now.
 * LACKS: it lacks a permit, and none of any queue may overtake it. */
enum turn_of_store { STORE_NEXT, STORE_LAST, STORE_LACKS, STORE_FAILED };

static enum turn_of_store try_to_send(struct store *store)
{
    struct queue *queue = store->queue;
    bool is_large = store->bytes > ISOLATE_BYTES_LEAST;
    if (is_large && (is_end_doubtful(&queue->done) || is_end_doubtful(&queue->nack)))
        return STORE_NEXT;
    if (!is_bound_known(store))
        return STORE_NEXT;
    if (is_over_bound(store)) {
        fail_too_large(store);
        return STORE_FAILED;
    }
    if (store->suspect && !queue->calls.proved) /* `prove` starts the timer */
        return STORE_NEXT;
    if (store->suspect && queue->stores.out > 0)
        return STORE_LAST;
    if (!take_permit(store))
        return STORE_LACKS;
    if (send_set(store))
        return store->suspect ? STORE_LAST : STORE_NEXT;
    give_permit(store); /* uncovered: memory */
    pause_for(queue, PAUSE_FIRST_MS);
    return STORE_LAST;
}

static bool can_send(const struct queue *queue)
{
    const struct stores *stores = &queue->stores;
    return calls_up(queue) && !stores->suspect_out && stores->due_ms <= uv_now(queue->loop) &&
           (!stores->refused || stores->out == 0);
}

/* Sends the SETs of the queue in order, until one must wait that others must not overtake. A
 * callback may cancel others, so the search starts again after one. Returns the last turn. */
static enum turn_of_store pump(struct queue *queue)
{
    enum turn_of_store turn;
    do {
        turn = STORE_NEXT;
        list_each (node, &queue->stores.all) {
            struct store *store = container_of(node, struct store, node);
            if (!can_send(queue))
                return STORE_LAST;
            if (!store->out)
                turn = try_to_send(store);
            if (turn != STORE_NEXT)
                break;
        }
    } while (turn == STORE_FAILED);
    return turn;
}

/* Each call begins with another queue, so that all get the same chance. A queue that lacked a
 * permit goes first until it has sent a SET. */
void store_pump(struct group *group)
{
    uint32_t first = group->stores.next++;
    for (uint32_t i = 0; i < group->count; i++) {
        struct queue *queue = group->queues[(first + i) % group->count];
        if (!queue || list_empty(&queue->stores.all))
            continue;
        uint64_t now = uv_now(queue->loop);
        if (queue->stores.due_ms > now)
            timer_start(queue, TIMER_STORE, queue->stores.due_ms - now);
        unsigned before = queue->stores.out;
        if (pump(queue) == STORE_LACKS) {
            group->stores.next = first + i + (queue->stores.out > before);
            return;
        }
    }
}

void store_wake(struct group *group)
{
    each_queue (queue, group)
        if (!list_empty(&queue->stores.all))
            timer_start(queue, TIMER_STORE, 0);
}

/* ---- the queue ------------------------------------------------------------------------------ */

void store_init(struct queue *queue)
{
    list_init(&queue->stores.all);
    queue->stores.pause_ms = PAUSE_FIRST_MS;
}

void store_up(struct queue *queue)
{
    struct stores *stores = &queue->stores;
    stores->bound = BOUND_UNKNOWN;
    stores->refused = false;
    stores->due_ms = 0;
    stores->pause_ms = PAUSE_FIRST_MS;
    store_wake(queue->group);
}

/* Appends the words after the value. */
static bool take_value(struct store *store, const struct queue_value *value)
{
    char tail[TAIL_BYTES_MAX] = "\r\n", digits[TEXT_DIGITS_MAX];
    if (value->ttl_s > 0) {
        size_t count = text_number(digits, value->ttl_s);
        snprintf(tail, sizeof tail, "\r\n$2\r\nEX\r\n$%zu\r\n%.*s\r\n", count, (int)count, digits);
    }
    store->words = value->ttl_s > 0 ? 5 : 3;
    store->bytes = value->bytes;
    store->tail_bytes = strlen(tail);
    store->value = realloc(value->value, value->bytes + store->tail_bytes);
    if (store->value)
        memcpy(store->value + store->bytes, tail, store->tail_bytes);
    return store->value != NULL;
}

void *queue_store(struct queue *queue, const struct queue_value *value, const struct rank *rank,
                  queue_store_cb callback, void *context)
{
    size_t length = strlen(value->key) + 1;
    struct store *store = calloc(1, sizeof *store + length);
    if (!store || !take_value(store, value)) { /* uncovered: memory */
        free(value->value);
        free(store);
        return NULL;
    }
    memcpy(store->key, value->key, length);
    store->queue = queue;
    store->callback = callback;
    store->context = context;
    store->rank = *rank;
    store->holders = 1;
    rank_push(&queue->stores.all, &store->node, RANK_OFFSET(struct store, node, rank));
    timer_ensure(queue, TIMER_STORE, 0); /* no callback may run inside the daemon's call */
    return store;
}

void queue_store_cancel(struct queue *queue, void *handle)
{
    struct store *store = handle;
    (void)queue;
    store->cancelled = true;
    if (!store->out)
        drop(store);
}

void store_drop_all(struct queue *queue)
{
    struct store *waiting;
    struct error error = {0};
    do {
        waiting = NULL;
        list_each (node, &queue->stores.all)
            if (!container_of(node, struct store, node)->out)
                waiting = container_of(node, struct store, node);
        if (!waiting)
            break;
        error_set(&error, STATUS_WRITE_FAILED,
                  "the key \"%.80s\" cannot be stored: Redis has accepted no call for %g s",
                  waiting->key, queue->options->lease_s);
        finish(waiting, &error);
    } while (true);
}

void store_cancel_all(struct queue *queue)
{
    list_each (node, &queue->stores.all)
        container_of(node, struct store, node)->cancelled = true;
}

void store_free_all(struct queue *queue)
{
    while (!list_empty(&queue->stores.all))
        drop(container_of(list_first(&queue->stores.all), struct store, node));
}
