#include "queue/lease/wait.h"

#include <math.h>
#include <string.h>

#include "queue/lease/lease_impl.h"

static void unblocked(void *context, redisReply *reply);

/* Ends a BLMOVE of NS:jobs if this daemon is no longer the watcher. That happens if it learned of a
 * job by a message on the third connection (listen.c) and passed the watch on. The daemon must then
 * wait for NS:wake, or no daemon may read the next message. If Redis refuses CLIENT UNBLOCK, the
 * BLMOVE ends after block_s. */
static void leave_list(struct queue *queue)
{
    if (queue->wait.on == WAIT_ON_JOBS && queue->watch == WATCH_NOT && queue->wait.id != 0 &&
        redis_ask(queue->redis, 0, NULL, NULL, "CLIENT UNBLOCK %lld", queue->wait.id))
        queue->wait.on = WAIT_UNBLOCKED;
}

static void identified(void *context, redisReply *reply)
{
    struct queue *queue = context;
    queue->wait.id = reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    if (reply)
        redis_reset_backoff(queue->wait.redis);
}

void wait_up(struct queue *queue)
{
    redis_ask(queue->wait.redis, 0, identified, queue, "CLIENT ID");
    timer_turn(queue);
}

void wait_again(struct queue *queue)
{
    if (queue->wait.on == WAIT_REFUSED)
        queue->wait.on = WAIT_NOT;
}

void wait_pump(struct queue *queue)
{
    const char *ns = queue->options->namespace;
    if (!queue->idle.now || !fetch_is_possible(queue))
        return;
    listen_pump(queue);
    leave_list(queue);
    if (!idle_may_wait(queue) || queue->wait.on != WAIT_NOT || !redis_up(queue->wait.redis))
        return;
    double block_s = fmax(queue->options->block_s, 0.01); /* 0 would wait forever */
    enum queue_wait wait = queue->watch == WATCH_NOT ? WAIT_ON_WAKE : WAIT_ON_JOBS;
    bool sent =
        wait == WAIT_ON_WAKE
            ? redis_ask(queue->wait.redis, block_s + 3, unblocked, queue, "BLPOP %s:wake %.3f", ns,
                        block_s)
            : redis_ask(queue->wait.redis, block_s + 3, unblocked, queue,
                        "BLMOVE %s:jobs %s:jobs RIGHT RIGHT %.3f", ns, ns, block_s);
    queue->wait.on = sent ? wait : WAIT_NOT;
}

/* Handles a message from NS:wake: "watch" (be the watcher) or "fetch". If this daemon cannot fetch
 * now, it passes the watch on: the new watcher finds the jobs. */
static void take_wake_message(struct queue *queue, const redisReply *message)
{
    if (!idle_may_wait(queue) || !calls_ready(queue))
        watch_pass(queue);
    else if (message->type == REDIS_REPLY_STRING && strcmp(message->str, "watch") == 0)
        queue->watch = WATCH;
    else
        watch_job_came(queue);
}

static void unblocked(void *context, redisReply *reply)
{
    struct queue *queue = context;
    queue->wait.on = WAIT_NOT;
    if (queue->life == LIFE_SHUT || !reply)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        if (redis_refusal(reply->str) == REDIS_REFUSAL_RECONNECT)
            redis_drop(queue->wait.redis, reply->str);
        else
            queue->wait.on = WAIT_REFUSED; /* until the next idle timer */
    } else if (reply->type != REDIS_REPLY_NIL) {
        redis_mark_healthy(queue->wait.redis);
        if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
            take_wake_message(queue, reply->element[1]);
        else
            watch_job_came(queue);
    }
    timer_turn(queue);
}
