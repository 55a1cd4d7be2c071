#include "queue/lease/reap.h"

#include <math.h>
#include <stdlib.h>

#include "conf/log.h"
#include "queue/job/instance.h"
#include "queue/job/job.h"
#include "queue/job/result.h"
#include "queue/lease/lease_impl.h"

/* The time between REAPs is reap_s, plus or minus this fraction at random: spreads the calls of
 * daemons that were started together. */
#define REAP_JITTER 0.2
/* REAP takes expired leases at the second of two scans (PROTOCOL.md, Two scans). The second comes
 * at least this many renew_s after the first, so that each live daemon has renewed its leases. */
#define SECOND_SCAN 1.5
/* Each daemon reads the names of all daemons before a REAP. If there are F x NAMES_MAX names, it
 * reads them F times less often. Else 10,000 daemons would keep Redis busy with reading names. */
#define NAMES_MAX 100

/* Sends NACK as for a retry: it finds no attempt left, and the job is dead with this result. */
static void dead_letter(struct queue *queue, struct entry *entry)
{
    struct job_rules rules = {queue->options->namespace, 1};
    struct job job = {0};
    struct error ignored = {0}, error = {0};
    char daemon[INSTANCE_BYTES_MAX], label[LABEL_BYTES];
    size_t text_bytes;
    const char *text = lease_text(&entry->lease, &text_bytes);
    if (entry->lease.raw &&
        job_parse(&job, entry->lease.raw, entry->lease.raw_bytes, &rules, &ignored) != STATUS_OK)
        log_debug("%sjob %llu: %s", queue->log_prefix, (unsigned long long)entry->lease.number,
                  ignored.text);
    label_job(label, lease_name(&entry->lease), &job, text, text_bytes);
    error_set(&error, STATUS_ATTEMPTS_EXHAUSTED,
              "in attempt %u of %u, the last one, the daemon died or lost its lease",
              entry->lease.attempt, entry->lease.attempts_max);
    instance_daemon(queue->instance, daemon);
    struct result result = {
        .job = &job,
        .text = text,
        .text_bytes = text_bytes,
        .number = entry->lease.number,
        .shard = entry->lease.shard,
        .shards = entry->lease.shards,
        .status = "dead",
        .error = &error,
        .attempt = entry->lease.attempt,
        .daemon = daemon,
        .ms = {-1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 0},
    };
    entry->internal = true;
    log_warning("job %s is dead: %s: %s", label, status_name(error.status), error.text);
    struct queue_answer answer = {
        .result = result_write(&result), .id = job.id, .reply_to = job.reply_to,
        .unique = job.unique};
    end_push(entry, END_RETRY, &answer);
    job_clear(&job);
}

/* The first elements of the reply of REAP (PROTOCOL.md). */
struct reap_reply {
    long long back; /* number of jobs that went back to the queue */
    bool more;      /* another call is necessary */
    long long time; /* of Redis, Unix ms */
    bool expired;   /* there are expired leases that this call did not have to take: those since
                       the first scan; all, if this is no second scan */
};
enum { REAP_HEAD = 4 }; /* elements before number, attempt and text of each dead job */

static struct reap_reply read_reply(const redisReply *reply)
{
    return (struct reap_reply){
        .back = script_reply_integer(reply, 0),
        .more = script_reply_integer(reply, 1) == 1,
        .time = script_reply_integer(reply, 2),
        .expired = script_reply_integer(reply, 3) > 0,
    };
}

static uint64_t second_scan_ms(const struct queue *queue)
{
    return (uint64_t)ceil(SECOND_SCAN * queue->options->renew_s * 1000);
}

/* Call after the last call of a scan. A second scan is the first scan of the next pair. A scan that
 * is too early to be a second one does not replace the first one, unless Redis's clock went back.
 * If leases have expired, the timer is started for a second scan soon, even before reap_s has
 * passed. */
static void note_scan(struct queue *queue, const struct reap_reply *reply)
{
    struct reap *reap = &queue->reap;
    if (reap->scan_time < 0 || reap->scan == SCAN_SECOND || reply->time < reap->scan_time) {
        reap->scan_time = reply->time;
        reap->scan_loop_ms = uv_now(queue->loop);
    }
    if (reply->expired && (double)second_scan_ms(queue) < queue->options->reap_s * 1000)
        timer_start(queue, TIMER_REAP, second_scan_ms(queue));
}

static void start(struct queue *queue, bool scans);

static void reaped(void *context, redisReply *reply)
{
    struct queue *queue = context;
    struct reap *reap = &queue->reap;
    uint64_t counter = reap->counter;
    reap->state = REAP_NOT;
    timer_turn(queue);
    if (!reply && queue->calls.proved &&
        limit_lost(&queue->reap.limit, reap->count, uv_now(queue->loop)))
        redis_reset_backoff(queue->redis);
    if (!reply || !calls_accept(queue, SCRIPT_ID_REAP, reply, REAP_HEAD, false))
        return;
    limit_accepted(&queue->reap.limit, uv_now(queue->loop));
    for (size_t i = REAP_HEAD; i + 2 < reply->elements; i += 3) {
        struct entry *entry = entry_from_reply(queue, reply, i, counter, JOB_BYTES_MAX);
        if (entry)
            dead_letter(queue, entry);
    }
    struct reap_reply head = read_reply(reply);
    if (head.back > 0) {
        log_info("%s%lld jobs whose daemon died or lost its lease went back to the queue",
                 queue->log_prefix, head.back);
        idle_end(queue);
    }
    if (head.more || reap->names == NAMES_FIRST) {
        start(queue, reap->scan != SCAN_NOT);
        return;
    }
    if (reap->names != NAMES_NOT && reap->name_count > NAMES_MAX)
        reap->names_due_ms = uv_now(queue->loop) + (uint64_t)(queue->options->reap_s * 1000 *
                                                              (double)reap->name_count / NAMES_MAX);
    if (reap->scan != SCAN_NOT)
        note_scan(queue, &head);
}

/* Adds the names of the daemons of this host whose process is gone, at most QUEUE_BATCH_MAX. */
static void add_gone(struct script_call *call, struct queue *queue, const redisReply *names)
{
    size_t gone = 0;
    for (size_t i = 0; names->type == REDIS_REPLY_ARRAY && i < names->elements; i++) {
        const redisReply *name = names->element[i];
        if (name->type != REDIS_REPLY_STRING ||
            instance_life(name->str, queue->instance) != INSTANCE_DEAD)
            continue;
        if (++gone > QUEUE_BATCH_MAX)
            break;
        log_info("%sdaemon %s is gone: its jobs go back to the queue", queue->log_prefix,
                 name->str);
        script_call_format(call, "%s", name->str);
    }
    queue->reap.names = gone > QUEUE_BATCH_MAX ? NAMES_FIRST : NAMES_ALL;
}

/* names: the reply of ZRANGE, or NULL if it was not sent. */
static void send_reap(struct queue *queue, const redisReply *names)
{
    const struct options *options = queue->options;
    struct reap *reap = &queue->reap;
    struct script_call *call = call_new(queue, SCRIPT_ID_REAP, "lease", "inst", "jobs", "alone",
                                        "alone:owner", "watcher");
    script_call_text(call, options->namespace);
    script_call_text(call, queue->instance);
    script_call_number(call, ++queue->group->counter);
    script_call_ms(call, options->lease_s);
    script_call_number(call, options->attempts);
    script_call_number(call, JOB_BYTES_MAX);
    reap->count = limit_count(&queue->reap.limit, QUEUE_BATCH_MAX);
    script_call_number(call, reap->count);
    if (reap->scan == SCAN_SECOND)
        script_call_number(call, (uint64_t)reap->scan_time);
    else
        script_call_text(call, "-1");
    reap->names = NAMES_NOT;
    if (names)
        add_gone(call, queue, names);
    reap->counter = queue->group->counter;
    reap->state = REAP_RUNS;
    if (!script_call_send(call, queue->redis, reaped, queue)) /* uncovered: refusal */
        reap->state = REAP_NOT;
}

static void listed(void *context, redisReply *reply)
{
    struct queue *queue = context;
    queue->reap.state = REAP_NOT;
    if (!reply || queue_is_closing(queue))
        return;
    queue->reap.name_count = reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
    send_reap(queue, reply);
}

/* Starts a REAP unless one runs. scans: it also scans for expired leases.
 *
 * Before the script it reads the names of all daemons, to find those of this host whose process is
 * gone: no other host can see that. Reading them only saves time, because the leases of a dead
 * daemon expire anyway. So a scan before names_due_ms does not read them. */
static void start(struct queue *queue, bool scans)
{
    struct reap *reap = &queue->reap;
    if (reap->state != REAP_NOT || queue_is_closing(queue) || !redis_up(queue->redis))
        return;
    bool second = reap->scan_time >= 0 && /* measured by uv_now, a clock without steps */
                  uv_now(queue->loop) - reap->scan_loop_ms >= second_scan_ms(queue);
    reap->scan = !scans ? SCAN_NOT : second ? SCAN_SECOND : SCAN_FIRST;
    if (scans && uv_now(queue->loop) < reap->names_due_ms) {
        send_reap(queue, NULL);
        return;
    }
    if (redis_ask(queue->redis, 0, listed, queue, "ZRANGE %s:inst 0 -1", queue->options->namespace))
        reap->state = REAP_READS_NAMES;
}

/* Starts the timer of the next REAP. */
static void start_timer(struct queue *queue)
{
    double factor = 1 - REAP_JITTER + 2 * REAP_JITTER * erand48(queue->random_state);
    timer_start(queue, TIMER_REAP, (uint64_t)ceil(queue->options->reap_s * factor * 1000));
}

void reap_up(struct queue *queue, bool first)
{
    if (first)
        start(queue, false);
    /* After an outage of Redis all leases seem expired. A new first scan gives their daemons the
     * time to renew them. */
    queue->reap.scan_time = -1;
    start_timer(queue);
}

void reap_due(struct queue *queue)
{
    start_timer(queue);
    start(queue, true);
}
