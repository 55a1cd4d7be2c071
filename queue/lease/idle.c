#include "queue/lease/idle.h"

#include <math.h>
#include <stdlib.h>

#include "conf/log.h"
#include "queue/lease/lease_impl.h"

/* The reply of LOOK (PROTOCOL.md). */
struct look_reply {
    bool worth;                /* FETCH would find something to do */
    uint64_t length;           /* jobs in all lists */
    long long due_ms;          /* time until the next delayed job is due; -1: there is none */
    bool paused;               /* NS:paused exists */
    const redisReply *lengths; /* see lengths_note */
};
enum { LOOK_HEAD = 5 }; /* elements of the reply */

static struct look_reply read_reply(const redisReply *reply)
{
    return (struct look_reply){
        .worth = script_reply_integer(reply, 0) == 1,
        .length = (uint64_t)script_reply_integer(reply, 1),
        .due_ms = script_reply_integer(reply, 2),
        .paused = script_reply_integer(reply, 3) == 1,
        .lengths = reply->element[4],
    };
}

/* Random delay, so that two daemons do not fetch the same due job at the same moment. */
#define DUE_JITTER_MS 20

bool idle_may_wait(const struct queue *queue)
{
    return queue->idle.now && !queue_is_closing(queue) && !queue->view.paused && places_open(queue);
}

void idle_enter(struct queue *queue, long long due_ms)
{
    double random = erand48(queue->random_state);
    double ms = fmax(queue->options->block_s, 0.01) * 1000 * (0.75 + 0.25 * random);
    double due = (double)due_ms + 1 + (queue->watch != WATCH_NOT ? 0 : DUE_JITTER_MS * random);
    if (due_ms >= 0 && due < ms)
        ms = due;
    queue->idle.now = true;
    timer_start(queue, TIMER_IDLE, (uint64_t)ms);
}

void idle_end(struct queue *queue)
{
    queue->idle.now = false;
    timer_turn(queue);
}

void idle_note_paused(struct queue *queue, bool paused)
{
    if (paused != queue->view.paused)
        log_info("%s:paused is %s: fetching is %s", queue->options->namespace,
                 paused ? "set" : "gone", paused ? "paused for all daemons" : "resumed");
    queue->view.paused = paused;
}

static void note_state(struct queue *queue, const struct look_reply *reply)
{
    queue->view.length = reply->length;
    if (reply->length == 0)
        lengths_note_empty(queue, queue->idle.look_ms);
    lengths_note(queue, reply->lengths);
    idle_note_paused(queue, reply->paused);
    if (reply->worth)
        idle_end(queue);
    else /* only the watcher (watch.h) wakes up for due jobs */
        idle_enter(queue, queue->watch != WATCH_NOT ? reply->due_ms : -1);
}

static void looked(void *context, redisReply *reply)
{
    struct queue *queue = context;
    queue->idle.looking = false;
    timer_turn(queue);
    if (!queue->idle.now || queue_is_closing(queue))
        return;
    if (!reply || !calls_accept(queue, SCRIPT_ID_LOOK, reply, LOOK_HEAD, true)) {
        idle_end(queue);
        return;
    }
    struct look_reply look = read_reply(reply);
    note_state(queue, &look);
}

void idle_over(struct queue *queue)
{
    if (queue->idle.now && places_open(queue) && calls_ready(queue) && !queue->idle.looking) {
        struct script_call *call = call_new(queue, SCRIPT_ID_LOOK, "jobs", "delayed", "alone",
                                            "alone:owner", "watcher", "paused", "woken");
        queue->idle.look_ms = uv_now(queue->loop);
        queue->idle.looking = script_call_send(call, queue->redis, looked, queue);
        if (queue->idle.looking)
            return;
    }
    idle_end(queue);
}
