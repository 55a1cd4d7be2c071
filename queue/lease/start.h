/* start.h - asks Redis by the script START whether a leased job may start, or was cancelled.
 *
 * While a call is outstanding, new questions wait for the next batch. If a call gets no reply, its
 * questions are sent again. If the first call ended a lease, Redis answers the repeated question
 * with "stale": another lease, or none, exists. Loop thread only. */
#pragma once

#include "queue/lease/entry.h"
#include "queue/lease/limit.h"

struct start {
    struct list asks, asked; /* of struct ask: questions that wait; those of the outstanding call */
    struct limit limit;      /* of the questions per call */
    long long horizon;       /* highest job number that a cancel can apply to; -1: there is none */
};

/* Sends the next call if questions wait and START may be called now. */
void start_pump(struct queue *queue);
/* Notes the horizon, and asks START about each running lease with an id that a cancel can apply
 * to. */
void start_check(struct queue *queue, long long horizon);
/* Whether a question about the lease was sent: START may have ended the lease in Redis. */
bool start_is_sent(const struct entry *entry);
void start_forget(struct entry *entry); /* the lease ends: start_decided is not called for it */
void start_free_all(struct queue *queue);
