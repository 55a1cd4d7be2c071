/*
 * lengths.c - reads the lengths of NS:results, NS:dead and NS:delayed, which can grow unnoticed.
 *
 * Three commands after each RENEW cost Redis a microsecond each. They wait until Redis has accepted
 * the RENEW, which proves that all keys are on one node. In a Cluster without a hash tag in the
 * namespace they are not, and MOVED would lead the connection from node to node. Error replies are
 * ignored: the next FETCH reports the same error.
 */
#include "conf/log.h"
#include "queue/lease/lease_impl.h"

/* Fractions of results_max. They differ so that a list which is drained in pieces warns once. */
#define FILLS_AT 0.8
#define EMPTIES_AT 0.6

static void note_results(struct queue *queue)
{
    uint64_t most = queue->config.results_max, count = queue->view.results;
    double share = most > 0 ? (double)count / (double)most : 0;
    if (share >= FILLS_AT && !queue->results_fill)
        log_warning("%s:results holds %llu of at most %llu results (results_max): the oldest are "
                    "lost when it is full; read them, or set results = id or none",
                    queue->config.ns, (unsigned long long)count, (unsigned long long)most);
    else if (share < EMPTIES_AT && queue->results_fill)
        log_info("%s:results holds %llu of at most %llu results again", queue->config.ns,
                 (unsigned long long)count, (unsigned long long)most);
    queue->results_fill = share >= (queue->results_fill ? EMPTIES_AT : FILLS_AT);
}

static void counted(void *length, redisReply *reply)
{
    if (reply && reply->type == REDIS_REPLY_INTEGER)
        *(uint64_t *)length = (uint64_t)reply->integer;
}

static void results_counted(void *context, redisReply *reply)
{
    struct queue *queue = context;
    counted(&queue->view.results, reply);
    note_results(queue);
}

void lengths_ask(struct queue *queue)
{
    const char *ns = queue->config.ns;
    redis_ask(queue->redis, 0, results_counted, queue, "LLEN %s:results", ns);
    redis_ask(queue->redis, 0, counted, &queue->view.dead_listed, "LLEN %s:dead", ns);
    redis_ask(queue->redis, 0, counted, &queue->view.delayed, "ZCARD %s:delayed", ns);
}
