/* heartbeats.h - reads how far the daemons are with the jobs that submit awaits.
 *
 * Each daemon publishes its statistics in Redis about once a second, with the jobs with many images
 * that it runs (PROTOCOL.md). One thread. */
#pragma once

#include "queue/ctl/sets/set_jobs.h"

struct heartbeats {
    double read_s; /* CLOCK_MONOTONIC of the last reading; 0: none */
};

/* Updates the jobs, but at most once a second. Does not wait for a Redis that is away. Returns
 * whether a job has progressed. */
bool heartbeats_read(struct heartbeats *heartbeats, const struct ctl *ctl, struct set_jobs *jobs);
