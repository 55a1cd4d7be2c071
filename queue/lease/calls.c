#include "queue/lease/calls.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conf/log.h"
#include "conf/text.h"
#include "queue/lease/lease_impl.h"

/* After this many connections that broke in a row, the log gives BREAKS_ADVICE. */
#define BREAKS_LEAST 5
/* For the limit, Redis counts the reply of a script as at least 20 KiB: that of one buffer. */
#define BREAKS_ADVICE                                                                              \
    "; the limit of its replies, or that of a proxy, may be too small: set "                       \
    "client-output-buffer-limit normal to at least 32kb, or to 0"
#define RETRY_LAST_MS 5000
#define RETRY_OOM_MS 1000

/* In LIFE_SHUT, queue->redis may be freed although it is not NULL. */
bool calls_up(const struct queue *queue)
{
    return queue->life != LIFE_SHUT && queue->redis && redis_up(queue->redis);
}

bool calls_ready(const struct queue *queue)
{
    return calls_up(queue) && queue->calls.state == CALLS_OPEN;
}

/* ---- the state ------------------------------------------------------------------------------- */

static void reset_backoff(struct calls *calls)
{
    calls->backoff_ms = RETRY_FIRST_MS;
    calls->reason[0] = '\0';
}

void calls_opened(struct queue *queue)
{
    queue->calls.state = CALLS_OPEN;
    queue->calls.proved = false;
    reset_backoff(&queue->calls);
    uv_timer_stop(&queue->timers.each[TIMER_BACKOFF]);
}

/* Counts a broken connection. Returns BREAKS_ADVICE after BREAKS_LEAST connections in a row that
 * broke before Redis answered any call: smaller calls (limit.h) do not help then. Else "". */
static const char *advice_after_breaks(struct queue *queue)
{
    struct calls *calls = &queue->calls;
    if (calls->state == CALLS_DOWN || calls->proved || calls->broken == 0)
        return "";
    if (++calls->breaks == BREAKS_LEAST)
        log_error("%s%d connections in a row broke before Redis answered a call" BREAKS_ADVICE,
                  queue->log_prefix, BREAKS_LEAST);
    return calls->breaks >= BREAKS_LEAST ? BREAKS_ADVICE : "";
}

void calls_broke(struct queue *queue, const char *reason)
{
    struct calls *calls = &queue->calls;
    snprintf(calls->reason, sizeof calls->reason, "%s%s%s", reason, redis_advice(reason),
             advice_after_breaks(queue));
    calls->state = CALLS_DOWN;
}

static void back_off(struct queue *queue, const char *error, enum redis_refusal refusal)
{
    struct calls *calls = &queue->calls;
    uint64_t ms = calls->backoff_ms;
    if (refusal == REDIS_REFUSAL_AUTH)
        ms = (uint64_t)ceil(queue->options->auth_retry_s * 1000);
    else if (redis_error_is(error, "OOM")) /* uncovered: memory */
        ms = RETRY_OOM_MS;
    calls->backoff_ms *= 2;
    if (calls->backoff_ms > RETRY_LAST_MS)
        calls->backoff_ms = RETRY_LAST_MS;
    if (calls->state == CALLS_OPEN)
        calls->state = CALLS_BACK_OFF;
    snprintf(calls->reason, sizeof calls->reason, "Redis refuses: %s%s", error,
             redis_advice(error));
    timer_start(queue, TIMER_BACKOFF, ms);
}

void calls_backed_off(struct queue *queue)
{
    if (queue->calls.state == CALLS_BACK_OFF)
        queue->calls.state = CALLS_OPEN;
}

/* ---- replies --------------------------------------------------------------------------------- */

void calls_refused(struct queue *queue, enum script script, const redisReply *reply, bool waits)
{
    char error[ERROR_TEXT_MAX] = "a reply of an unexpected form";
    char *logged = queue->calls.logged_refusal[script];
    if (reply->type == REDIS_REPLY_ERROR)
        text_copy(error, sizeof error, reply->str);
    text_make_printable(error);
    if (strcmp(logged, error) != 0)
        log_warning("%sRedis refuses %s: %s%s", queue->log_prefix, script_name(script), error,
                    redis_advice(error));
    text_copy(logged, ERROR_TEXT_MAX, error);
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
    queue->calls.broken |= 1u << script;
}

bool calls_may_send(const struct queue *queue, enum script script)
{
    return calls_ready(queue) && (queue->calls.proved || !(queue->calls.broken >> script & 1));
}

/* Call for the first answer on a connection: scripts that waited for it may be called now. */
static void prove(struct queue *queue)
{
    if (queue->calls.proved)
        return;
    queue->calls.proved = true;
    queue->calls.proved_ms = uv_now(queue->loop);
    timer_ensure(queue, TIMER_DONE, 0); /* also sends FETCH */
    timer_ensure(queue, TIMER_NACK, 0);
    timer_ensure(queue, TIMER_START, 0);
    timer_ensure(queue, TIMER_STORE, 0);
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
    struct calls *calls = &queue->calls;
    if (*calls->logged_refusal[script])
        log_info("%sRedis accepts %s again", queue->log_prefix, script_name(script));
    calls->logged_refusal[script][0] = '\0';
    if (script == SCRIPT_ID_FETCH || script == SCRIPT_ID_START || script == SCRIPT_ID_DONE ||
        script == SCRIPT_ID_NACK)
        reset_backoff(calls);
    redis_mark_healthy(queue->redis);
    calls->broken &= ~(1u << script);
    if (calls->broken == 0) {
        calls->breaks = 0;
        redis_reset_backoff(queue->redis);
    }
    calls->accepted_ms = uv_now(queue->loop);
    return true;
}
