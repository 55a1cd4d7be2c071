/* publish.c - stores the daemon's statistics at NS:stats:INST, a key that expires. */
#include <math.h>

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
    if (queue_ready(queue) && !queue->publishing && !queue->closing)
        queue->publishing =
            redis_ask(queue->redis, 0, published, queue, "SET %s:stats:%s %s PX %.0f",
                      queue->config.ns, queue->config.instance, text, ceil(ttl_s * 1000));
}
