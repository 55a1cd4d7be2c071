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

void listen_pump(struct queue *queue); /* asks for a message if this daemon is the watcher */
void listen_forget(struct queue *queue); /* the main connection is new */
