/* listen.h - wakes the watcher after a push to a list with a priority.
 *
 * BLMOVE waits for one list only, and the commands that wait for several lists take the job out of
 * Redis, so that it would be lost with the daemon. Redis reports changes of keys to clients that
 * cache them (CLIENT TRACKING): the watcher reads the lists with EXISTS on the main connection, and
 * Redis sends one message when one of them changes, to a third connection that is subscribed to
 * a channel. The next EXISTS asks for the next message.
 *
 * If Redis refuses this, LOOK finds the jobs within block_s. */
#pragma once

#include "queue/lease/queue.h"

/* Whether Redis reports changes of the lists to the third connection. */
enum listen_report {
    REPORT_NOT,
    REPORT_ON,     /* it would report changes of keys that the main connection reads */
    REPORT_ARMED,  /* a message comes when a list with a priority changes */
    REPORT_REFUSED /* Redis refused; a new connection asks again */
};

struct listen {
    struct redis *redis; /* NULL until this daemon is the watcher for the first time */
    long long id;        /* Redis's id of the connection; 0: not known */
    bool subscribed;     /* it gets messages */
    enum listen_report report;
};

void listen_pump(struct queue *queue); /* asks for a message if this daemon is the watcher */
void listen_forget(struct queue *queue); /* the main connection is new */
