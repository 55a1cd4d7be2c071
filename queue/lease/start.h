/* start.h - asks Redis, through the script START, whether a leased job may start or was cancelled.
 *
 * While a call is outstanding, new questions wait for the next batch. If a call gets no reply, its
 * questions are sent again. If the lost call ended a lease, Redis answers the repeated question
 * with "stale". */
#pragma once

#include "queue/lease/entry.h"
#include "queue/lease/limit.h"

struct start {
    struct list asks, asked; /* questions: waiting, and those of the outstanding call */
    struct limit limit;
    long long horizon;       /* highest job number that a cancel can apply to; -1: none */
};

/* Sends the next call if one is needed and possible. */
void start_pump(struct queue *queue);
/* Asks START about the running leases that a cancel can apply to. */
void start_check(struct queue *queue, long long horizon);
/* Returns true if a question was sent: Redis may have ended the lease already. */
bool start_is_sent(const struct entry *entry);
void start_forget(struct entry *entry); /* the lease ends: report no decision */
void start_free_all(struct queue *queue);
