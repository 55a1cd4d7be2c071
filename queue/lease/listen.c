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
    queue->tracking = queue->armed = queue->listen_refused = false;
}

static void refused(struct queue *queue, const char *error)
{
    if (!queue->listen_refused && !queue_is_closing(queue))
        log_info("%sRedis does not report changes of keys: %s; while all daemons are idle, a job "
                 "with a priority starts up to %g s later%s", queue->mark, error,
                 queue->options->block_s, redis_advice(error));
    queue->tracking = queue->armed = false;
    queue->listen_refused = true;
}

/* ---- the message ----------------------------------------------------------------------------- */

static void message_came(void *context, const redisReply *message)
{
    struct queue *queue = context;
    (void)message; /* names the key; FETCH reads all lists */
    queue->armed = false;
    if (is_watcher(queue))
        watch_job_came(queue);
}

/* Replies to SUBSCRIBE: {"subscribe", CHANNEL, 1}. */
static void subscribed(void *context, redisReply *reply)
{
    struct queue *queue = context;
    if (!reply)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        refused(queue, reply->str);
        return;
    }
    queue->subscribed = queue->listener > 0;
    redis_mark_healthy(queue->listening);
    redis_reset_backoff(queue->listening);
    listen_pump(queue);
}

static void identified(void *context, redisReply *reply)
{
    struct queue *queue = context;
    if (reply && reply->type == REDIS_REPLY_INTEGER)
        queue->listener = reply->integer;
    else if (reply && reply->type == REDIS_REPLY_ERROR)
        refused(queue, reply->str);
}

static void listening_up(void *context)
{
    struct queue *queue = context;
    listen_forget(queue);
    if (!redis_ask(queue->listening, 0, identified, queue, "CLIENT ID") ||
        !redis_ask(queue->listening, 0, subscribed, queue, "SUBSCRIBE " CHANNEL))
        redis_drop(queue->listening, "memory is short"); /* uncovered: memory */
}

static void listening_down(void *context, const char *reason)
{
    struct queue *queue = context;
    (void)reason; /* the main connection logs it */
    queue->listener = 0;
    queue->subscribed = queue->tracking = queue->armed = false;
}

/* Most daemons of a busy fleet never watch, and need no third connection. */
static void connect_listener(struct queue *queue)
{
    struct redis_options how = {
        .route = queue->route, .conf = queue->options, .random_state = queue->random_state};
    const struct redis_events events = {queue, listening_up, listening_down, message_came};
    queue->listening = redis_create(queue->loop, &how, &events);
    if (!queue->listening) /* uncovered: memory */
        return;
    queue->open_handles++;
    redis_start(queue->listening);
}

/* ---- asking for it --------------------------------------------------------------------------- */

static void asked(void *context, redisReply *reply)
{
    struct queue *queue = context;
    if (reply && reply->type == REDIS_REPLY_ERROR)
        refused(queue, reply->str);
}

/* A key that is no list exists, too, and costs one FETCH in vain. The number of such keys at the
 * last FETCH is no guide: a user may have replaced one by a list since then. */
static void counted(void *context, redisReply *reply)
{
    struct queue *queue = context;
    if (!reply)
        return;
    if (reply->type != REDIS_REPLY_INTEGER)
        queue->armed = false; /* a slot migrates; the next LOOK asks again */
    else if (reply->integer > 0 && is_watcher(queue))
        watch_job_came(queue);
}

/* While the main connection is in the mode OPTIN, Redis notes only the keys of the command after
 * CLIENT CACHING. */
void listen_pump(struct queue *queue)
{
    const char *ns = queue->options->namespace;
    if (queue->armed || queue->listen_refused || !is_watcher(queue))
        return;
    if (!queue->listening)
        connect_listener(queue);
    if (!queue->subscribed)
        return; /* subscribed() calls this function again */
    queue->armed = true;
    if (!queue->tracking)
        redis_ask(queue->redis, 0, asked, queue, "CLIENT TRACKING ON REDIRECT %lld OPTIN",
                  queue->listener);
    queue->tracking = true;
    redis_ask(queue->redis, 0, asked, queue, "CLIENT CACHING YES");
    redis_ask(queue->redis, 0, counted, queue,
              "EXISTS %s:jobs:0 %s:jobs:1 %s:jobs:2 %s:jobs:3 %s:jobs:4 %s:jobs:5 %s:jobs:6 "
              "%s:jobs:7 %s:jobs:8 %s:jobs:9", ns, ns, ns, ns, ns, ns, ns, ns, ns, ns);
}
