#include "queue/lease/listen.h"

#include "conf/log.h"
#include "queue/lease/lease_impl.h"

#define CHANNEL "__redis__:invalidate"

static bool is_watcher(const struct queue *queue)
{
    return queue->watch != WATCH_NOT && idle_may_wait(queue) && calls_ready(queue);
}

void listen_forget(struct queue *queue)
{
    queue->listen.report = REPORT_NOT;
}

static void refused(struct queue *queue, const char *error)
{
    if (queue->listen.report != REPORT_REFUSED && !queue_is_closing(queue))
        log_info("%sRedis does not report changes of keys: %s; while all daemons are idle, a job "
                 "with a priority starts up to %g s later%s",
                 queue->log_prefix, error, queue->options->block_s, redis_advice(error));
    queue->listen.report = REPORT_REFUSED;
}

/* Notes that no message comes until the next EXISTS. */
static void disarm(struct queue *queue)
{
    if (queue->listen.report == REPORT_ARMED)
        queue->listen.report = REPORT_ON;
}

/* ---- the message ----------------------------------------------------------------------------- */

static void message_came(void *context, const redisReply *message)
{
    struct queue *queue = context;
    (void)message; /* it names the list; FETCH reads all lists anyway */
    disarm(queue);
    if (is_watcher(queue))
        watch_job_came(queue);
}

/* Replies to SUBSCRIBE: {"subscribe", CHANNEL, 1}. */
static void listener_subscribed(void *context, redisReply *reply)
{
    struct queue *queue = context;
    if (!reply)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        refused(queue, reply->str);
        return;
    }
    queue->listen.subscribed = queue->listen.id > 0;
    redis_mark_healthy(queue->listen.redis);
    redis_reset_backoff(queue->listen.redis);
    timer_turn(queue);
}

static void listener_identified(void *context, redisReply *reply)
{
    struct queue *queue = context;
    if (reply && reply->type == REDIS_REPLY_INTEGER)
        queue->listen.id = reply->integer;
    else if (reply && reply->type == REDIS_REPLY_ERROR)
        refused(queue, reply->str);
}

static void listening_up(void *context)
{
    struct queue *queue = context;
    listen_forget(queue);
    if (!redis_ask(queue->listen.redis, 0, listener_identified, queue, "CLIENT ID") ||
        !redis_ask(queue->listen.redis, 0, listener_subscribed, queue, "SUBSCRIBE " CHANNEL))
        redis_drop(queue->listen.redis, "memory is short"); /* uncovered: memory */
}

static void listening_down(void *context, const char *reason)
{
    struct queue *queue = context;
    (void)reason; /* not logged: the main connection logs that Redis is away */
    queue->listen.id = 0;
    queue->listen.subscribed = false;
    if (queue->listen.report != REPORT_REFUSED)
        queue->listen.report = REPORT_NOT;
}

/* Called when this daemon is the watcher for the first time. Most daemons of a busy fleet never
 * are, and need no third connection. */
static void connect_listener(struct queue *queue)
{
    struct redis_options how = {
        .route = queue->route, .conf = queue->options, .random_state = queue->random_state};
    const struct redis_events events = {queue, listening_up, listening_down, message_came};
    queue->listen.redis = redis_create(queue->loop, &how, &events);
    if (!queue->listen.redis) /* uncovered: memory */
        return;
    queue->ending.open_handles++;
    redis_start(queue->listen.redis);
}

/* ---- asking for a message -------------------------------------------------------------------- */

static void asked(void *context, redisReply *reply)
{
    struct queue *queue = context;
    if (reply && reply->type == REDIS_REPLY_ERROR)
        refused(queue, reply->str);
}

/* Handles the number of lists that exist. A key of another type also counts, and then costs a FETCH
 * that finds nothing. FETCH reports such keys, but they cannot be subtracted here: a user may have
 * replaced one by a list since then. */
static void lists_counted(void *context, redisReply *reply)
{
    struct queue *queue = context;
    if (!reply)
        return;
    if (reply->type != REDIS_REPLY_INTEGER)
        disarm(queue); /* a hash slot migrates; the turn after the next LOOK asks again */
    else if (reply->integer > 0 && is_watcher(queue))
        watch_job_came(queue);
}

/* In the mode OPTIN, Redis tracks only the keys of the command that follows CLIENT CACHING YES. */
void listen_pump(struct queue *queue)
{
    const char *ns = queue->options->namespace;
    if (queue->listen.report >= REPORT_ARMED || !is_watcher(queue))
        return;
    if (!queue->listen.redis)
        connect_listener(queue);
    if (!queue->listen.subscribed)
        return; /* the turn after listener_subscribed() calls this function again */
    bool was_on = queue->listen.report == REPORT_ON;
    queue->listen.report = REPORT_ARMED;
    if (!was_on)
        redis_ask(queue->redis, 0, asked, queue, "CLIENT TRACKING ON REDIRECT %lld OPTIN",
                  queue->listen.id);
    redis_ask(queue->redis, 0, asked, queue, "CLIENT CACHING YES");
    redis_ask(queue->redis, 0, lists_counted, queue,
              "EXISTS %s:jobs:0 %s:jobs:1 %s:jobs:2 %s:jobs:3 %s:jobs:4 %s:jobs:5 %s:jobs:6 "
              "%s:jobs:7 %s:jobs:8 %s:jobs:9",
              ns, ns, ns, ns, ns, ns, ns, ns, ns, ns);
}
