/*
 * lease_events.h - the queue's callbacks: turns a lease into a job, and ends jobs whose lease is
 * lost. Two callbacks are elsewhere: `settled` in ack.c, `batch_ended` in pipeline.c.
 */
#pragma once

#include "queue/lease/queue.h"

void lease_events_leased(void *context, struct lease *lease);
void lease_events_lost(void *context, struct lease *lease);
void lease_events_start_decided(void *context, struct lease *lease, enum start_decision decision,
                                const char *kept);
