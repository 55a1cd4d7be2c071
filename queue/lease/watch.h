/* watch.h - the role of the watcher, so that a push of a job wakes one idle daemon instead of all.
 *
 * One daemon per namespace is the watcher: while it is idle, it waits for pushes of jobs. All other
 * idle daemons wait for a message in NS:wake. FETCH and RENEW decide who is the watcher, and pass
 * the role (the watch) on (PROTOCOL.md, When idle). Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

/* Is this daemon the watcher? The values are those in the replies of FETCH and RENEW. */
enum queue_watch {
    WATCH_NOT,
    WATCH,            /* yes */
    WATCH_ONLY_DAEMON /* yes, and no other daemon is in the namespace */
};

void watch_pass(struct queue *queue); /* makes another daemon the watcher */
/* Passes the watch to another daemon if this one is the watcher but cannot fetch now. */
void watch_check(struct queue *queue);
/* Call when the idle queue learns of a new job. Ends the idle state, so that the queue fetches. If
 * other shards hold all places, also passes the watch on, so that another daemon can take the job
 * sooner. */
void watch_job_came(struct queue *queue);
