#include "queue/lease/calls.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conf/log.h"
#include "conf/text.h"
#include "queue/lease/lease_impl.h"

#define RETRY_LAST_MS 5000
#define RETRY_OOM_MS 1000

/* After shut(), queue->redis may be freed, and is NULL only when all handles are closed. */
bool calls_up(const struct queue *queue)
{
    return queue->life != LIFE_SHUT && queue->redis && redis_up(queue->redis);
}

bool calls_ready(const struct queue *queue)
{
    return calls_up(queue) && !queue->backs_off;
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
    timer_start(queue, TIMER_BACKOFF, ms);
}

void calls_refused(struct queue *queue, enum script script, const redisReply *reply, bool waits)
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

bool calls_is_cut(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "Protocol error");
}

void calls_lost(struct queue *queue, enum script script)
{
    queue->broken |= 1u << script;
}

bool calls_may_send(const struct queue *queue, enum script script)
{
    return calls_ready(queue) && (queue->proved || !(queue->broken >> script & 1));
}

/* The connection works: calls that may break it can be sent now. */
static void prove(struct queue *queue)
{
    if (queue->proved)
        return;
    queue->proved = true;
    queue->proved_ms = uv_now(queue->loop);
    timer_ensure(queue, TIMER_DONE, 0); /* also sends FETCH */
    timer_ensure(queue, TIMER_NACK, 0);
    timer_ensure(queue, TIMER_START, 0);
}

bool calls_accept(struct queue *queue, enum script script, const redisReply *reply, size_t least,
                  bool waits)
{
    if (!calls_is_cut(reply))
        prove(queue);
    if (!script_reply_is_array(reply, least)) {
        calls_refused(queue, script, reply, waits);
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
