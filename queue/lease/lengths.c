#include "queue/lease/lengths.h"

#include <string.h>

#include "conf/log.h"
#include "queue/lease/lease_impl.h"

/* Fractions of results_max. They differ, so that there is one warning if the number of results goes
 * up and down around FILLS_AT. */
#define FILLS_AT 0.8
#define EMPTIES_AT 0.6

void lengths_note(struct queue *queue, const redisReply *lengths)
{
    const char *ns = queue->options->namespace;
    for (unsigned i = 0; i < JOB_PRIORITIES; i++) {
        bool known = lengths->type == REDIS_REPLY_ARRAY && lengths->elements == JOB_PRIORITIES;
        long long length = known ? script_reply_integer(lengths, i) : 0;
        bool refused = length < 0, was = queue->lengths.refused >> i & 1;
        if (refused && !was)
            log_warning("%s:jobs:%u is no list, or an ACL denies it: it is skipped, and jobs that "
                        "return to it go to %s:jobs", ns, i, ns);
        else if (was && !refused)
            log_info("%s:jobs:%u can be used again", ns, i);
        queue->lengths.refused ^= (unsigned)(refused != was) << i;
        queue->view.lengths[i] = refused ? 0 : (uint64_t)length;
    }
}

void lengths_note_empty(struct queue *queue, uint64_t now_ms)
{
    queue->lengths.age = (struct queue_age){.since_ms = now_ms, .mark_ms = now_ms};
}

void lengths_note_age(struct queue *queue, long long number)
{
    struct queue_age *age = &queue->lengths.age;
    if (number < 0)
        return;
    bool passed = number - age->mark_number >= age->mark_length;
    if (queue->view.length == 0)
        age->since_ms = queue->fetch.sent_ms;
    else if (number >= age->mark_number && !passed)
        return;
    else if (passed)
        age->since_ms = age->mark_ms;
    /* else number < mark_number: NS:seq was lowered by hand, so set a new mark */
    age->mark_ms = queue->fetch.sent_ms;
    age->mark_number = number;
    age->mark_length = (long long)queue->view.length;
}

static void counted(void *length, redisReply *reply)
{
    if (reply && reply->type == REDIS_REPLY_INTEGER)
        *(uint64_t *)length = (uint64_t)reply->integer;
}

const char *lengths_results_key(const struct queue *queue)
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
    if (share >= FILLS_AT && !queue->lengths.fills)
        log_warning("%s:%s holds %llu of at most %llu results (results_max): the oldest are "
                    "lost when it is full; read them, or set results = id or none", ns,
                    lengths_results_key(queue), (unsigned long long)count,
                    (unsigned long long)most);
    else if (share < EMPTIES_AT && queue->lengths.fills)
        log_info("%s:%s holds %llu of at most %llu results again", ns, lengths_results_key(queue),
                 (unsigned long long)count, (unsigned long long)most);
    queue->lengths.fills = share >= (queue->lengths.fills ? EMPTIES_AT : FILLS_AT);
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
    struct script_call *call = call_new(queue, SCRIPT_ID_FORGET, lengths_results_key(queue));
    script_call_send(call, queue->redis, results_counted, queue);
}

/* Call only after Redis has accepted RENEW. This proves that all keys are on one node. In a Cluster
 * without a hash tag in the namespace they are not, and MOVED replies would lead the connection
 * from node to node. Error replies are ignored: the next FETCH reports the same error. */
void lengths_ask(struct queue *queue)
{
    const char *ns = queue->options->namespace;
    ask_results(queue);
    redis_ask(queue->redis, 0, counted, &queue->view.dead_listed, "LLEN %s:dead", ns);
    redis_ask(queue->redis, 0, counted, &queue->view.delayed, "ZCARD %s:delayed", ns);
}
