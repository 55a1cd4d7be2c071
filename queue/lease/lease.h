/* lease.h - keeps the leases of this daemon and its name in NS:inst alive, by three scripts.
 *
 * RENEW extends the leases and the name every renew_s. After the connection broke, RESUME gives
 * back the leases that the daemon does not know, because the reply to FETCH was lost. LEAVE removes
 * the name at the end. struct lease itself is in queue.h. Loop thread only. */
#pragma once

#include "queue/lease/queue.h"

struct lease_calls {
    int resumes_due;                              /* RESUME calls still to send */
    unsigned resumes_out, renews_out, leaves_out; /* outstanding calls of each script */
};

/* Call when the main connection is up: sends RESUME and RENEW. */
void lease_up(struct queue *queue);
/* Passes the watch (watch.h) to another daemon, by a RENEW without leases. */
void lease_renew_pass(struct queue *queue);
void lease_renew_due(struct queue *queue);    /* call when TIMER_RENEW expires */
void lease_resume(struct queue *queue);       /* sends RESUME now */
void lease_resume_later(struct queue *queue); /* sends RESUME with the next RENEW */
/* Sends LEAVE. watch: "pass" also passes the watch to another daemon; else "none". Returns false if
 * the call could not be sent. */
bool lease_leave(struct queue *queue, const char *watch);
