/* lengths.h - the lengths of the lists, and the age of the oldest waiting job. Loop thread only. */
#pragma once

#include <hiredis/hiredis.h>

#include "queue/lease/queue.h"

/* A bound of the age of the oldest waiting job: all were pushed after since_ms. At the mark,
 * mark_length jobs waited and mark_number was the last job number. Times of uv_now. */
struct queue_age {
    uint64_t since_ms, mark_ms;
    long long mark_number, mark_length;
};

struct lengths {
    struct queue_age age;
    unsigned refused; /* bit P: NS:jobs:P is no list, or is denied */
    bool due;         /* call lengths_ask after the reply of RENEW */
    bool fills;       /* the warning that the results are nearly full was logged */
};

/* Notes the lengths of the lists with a priority. `lengths` is empty if there are none. */
void lengths_note(struct queue *queue, const redisReply *lengths);
/* No job waited at this time, or none is known: uv_now. */
void lengths_note_empty(struct queue *queue, uint64_t now_ms);
/* Bounds the age of the oldest waiting job after a FETCH. number: the last job number, or -1. */
void lengths_note_age(struct queue *queue, long long number);
/* The key for results, without the namespace: "results", or "results:stream" with results = stream.
 */
const char *lengths_results_key(const struct queue *queue);
/* Reads the lengths of NS:results, or of the stream, and of NS:dead and NS:delayed. */
void lengths_ask(struct queue *queue);
