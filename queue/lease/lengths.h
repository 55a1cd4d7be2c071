/* lengths.h - how many jobs and results wait in Redis, and how old the oldest waiting job may be.
 * Loop thread only. */
#pragma once

#include <hiredis/hiredis.h>

#include "queue/lease/queue.h"

/* An upper bound for the age of the oldest waiting job. No job has the time of its push. But jobs
 * are numbered when they are taken for the first time, in the order of their push. So if N jobs
 * waited at some moment (the mark) and N numbers have been assigned since, all jobs that wait now
 * were pushed after the mark. Times of uv_now. */
struct queue_age {
    uint64_t since_ms;     /* all waiting jobs were pushed after this time */
    uint64_t mark_ms;      /* time of the mark */
    long long mark_number; /* the last job number at the mark */
    long long mark_length; /* jobs that waited at the mark */
};

struct lengths {
    struct queue_age age;
    unsigned refused; /* bit P: NS:jobs:P is no list, or is denied */
    bool due;         /* call lengths_ask after the next reply of RENEW */
    bool fills;       /* the list or stream of results is nearly full; this was logged */
};

/* Notes the lengths of the lists with a priority, NS:jobs:0 to NS:jobs:9. -1 means that a key is no
 * list, or that an ACL denies it. `lengths` is empty if none of the lists exists. */
void lengths_note(struct queue *queue, const redisReply *lengths);
/* Call if no job waited at the time now_ms (uv_now), and at the start. */
void lengths_note_empty(struct queue *queue, uint64_t now_ms);
/* Updates queue_age after a FETCH. number: the last job number; -1: not known. */
void lengths_note_age(struct queue *queue, long long number);
/* The key for results, without the namespace: "results", or "results:stream" with results = stream.
 */
const char *lengths_results_key(const struct queue *queue);
/* Asks Redis for the lengths of NS:results (or NS:results:stream), NS:dead and NS:delayed. */
void lengths_ask(struct queue *queue);
