/* watch.h - the role of the watcher, the one daemon that waits for pushes to NS:jobs. Others wait
 * for a message in NS:wake. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

/* Is this daemon the watcher? The values are those in the replies of FETCH and RENEW. */
enum queue_watch {
    WATCH_NOT,         /* no: it waits for a message in NS:wake */
    WATCH,
    WATCH_ONLY_DAEMON  /* yes, and no other daemon is in the namespace */
};

void watch_pass(struct queue *queue); /* another daemon shall watch NS:jobs */
/* Passes the watch to another daemon if this one is the watcher but cannot fetch now. */
void watch_check(struct queue *queue);
/* The idle queue learned of a job. If other shards have all the places, another daemon should take
 * the job. Else, or if none does, this one fetches it when a place is free. */
void watch_job_came(struct queue *queue);
