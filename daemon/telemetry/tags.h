/*
 * tags.h - counts the jobs of each client, by the key `tag` of its jobs.
 *
 * The first TAGS_MAX tags that a daemon sees have counters of their own. All later ones share those
 * of "other", so that clients cannot fill the memory, or Prometheus. Jobs without a tag are not
 * counted. The struct contains no pointers, so an assignment copies it. Loop thread only.
 */
#pragma once

#include "daemon/telemetry/metrics.h"

#define TAGS_MAX   64
#define TAGS_OTHER "other"

struct tag {
    char name[JOB_TAG_BYTES_MAX + 1];
    uint64_t jobs[METRICS_OUTCOMES];
    uint64_t pixels; /* of the inputs of jobs that are done */
    double work_s;   /* in which their jobs were read, computed and written, without waits */
    double job_s;    /* from the fetch of each job to its end */
};

struct tags {
    uint32_t count;
    struct tag list[TAGS_MAX + 1]; /* in the order of their first job; room for "other" */
};

/* Counts a job that has ended; of an attempt that is repeated, only the time. */
void tags_count(struct tags *tags, const struct metrics_job *job);
