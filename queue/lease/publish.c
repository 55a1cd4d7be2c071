/* publish.c - stores the daemon's statistics at NS:stats:INST, a key that expires. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/lease/lease_impl.h"

/* Errors are ignored here: the next FETCH reports the same error. */
static void published(void *context, redisReply *reply)
{
    struct queue *queue = context;
    (void)reply;
    queue->publishing = false;
}

void queue_publish(struct queue *queue, const char *text, double ttl_s)
{
    char *key = NULL, ms[32];
    if (!queue_ready(queue) || queue->publishing || queue->closing ||
        asprintf(&key, "%s:stats:%s", queue->config.ns, queue->config.instance) < 0)
        return;
    snprintf(ms, sizeof ms, "%.0f", ceil(ttl_s * 1000));
    const char *argv[] = {"SET", key, text, "PX", ms};
    size_t lengths[] = {3, strlen(key), strlen(text), 2, strlen(ms)};
    queue->publishing = redis_send(queue->redis, 5, argv, lengths, 0, published, queue);
    free(key);
}
