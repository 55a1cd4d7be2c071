/* listen.h - wakes the watcher (watch.h) after a push to a list with a priority, NS:jobs:0 to :9.
 *
 * BLMOVE waits for one list only (wait.h). The commands that wait for several lists take the job
 * out of Redis, so it would be lost if the daemon died. Therefore the watcher uses client-side
 * caching (CLIENT TRACKING): it reads the lists with EXISTS on the main connection, and Redis sends
 * one message when one of them changes. The message goes to a third connection, which is subscribed
 * to a channel. The next EXISTS asks for the next message.
 *
 * If Redis refuses these commands, LOOK finds the jobs within block_s (idle.h). Loop thread
 * only. */
#pragma once

#include "queue/lease/queue.h"

/* Whether Redis reports changes of the lists to the third connection. */
enum listen_report {
    REPORT_NOT,
    REPORT_ON,     /* CLIENT TRACKING is on, but no EXISTS asks for a message */
    REPORT_ARMED,  /* a message comes when a list with a priority changes */
    REPORT_REFUSED /* Redis refused; the daemon asks again after the next connect */
};

struct listen {
    struct redis *redis; /* NULL until this daemon is the watcher for the first time */
    long long id;        /* CLIENT ID of this connection; 0: not known */
    bool subscribed;     /* to the channel */
    enum listen_report report;
};

void listen_pump(struct queue *queue); /* asks for the next message if this daemon is the watcher */
void listen_forget(
    struct queue *queue); /* call when the main connection is up: it tracks no keys */
