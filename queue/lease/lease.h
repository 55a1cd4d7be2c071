/* lease.h - keeps this daemon's name and its leases alive (RENEW), gives leases back whose FETCH
 * reply was lost with the connection (RESUME), and removes the name (LEAVE). */
#pragma once

#include "queue/lease/queue.h"

struct lease_calls {
    int resumes_due;                               /* RESUME calls still to send */
    unsigned resumes_out, renews_out, leaves_out;  /* calls without a reply */
};

void lease_up(struct queue *queue); /* the main connection is new: RESUME and RENEW */
/* RENEW without leases that passes the watch to another daemon. */
void lease_renew_pass(struct queue *queue);
void lease_renew_due(struct queue *queue); /* the timer expired */
void lease_resume(struct queue *queue);
void lease_resume_later(struct queue *queue); /* with the next RENEW, at least once */
/* Sends LEAVE. watch: "pass" after a message of NS:wake, else "none". false: not connected. */
bool lease_leave(struct queue *queue, const char *watch);
