/*
 * metrics.h - counts what happens to jobs, from the daemon's start on.
 *
 * Loop thread only. The pipeline reports each end of an attempt; all that the daemon publishes
 * about jobs (snapshot.h) is made from these totals. Plain data without pointers, so that a copy is
 * whole.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_METRICS_H
#define GPUIMGD_DAEMON_TELEMETRY_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/status.h"
#include "daemon/telemetry/stage.h"
#include "queue/job/label.h"

/* Upper ends of the buckets of all durations, in seconds: from the copy of a small image to
 * job_timeout_s's default. Each is 2 to 2.5 times the one before, so that a quantile read out of
 * them is off by less than that factor, and a stage costs 20 lines of the exposition. */
#define METRICS_BUCKETS 19
extern const double metrics_bucket_s[METRICS_BUCKETS];

struct metrics_histogram {
    uint64_t counts[METRICS_BUCKETS + 1]; /* not cumulative; the last one: above all ends */
    double sum_s;
};
uint64_t metrics_histogram_count(const struct metrics_histogram *histogram);

/* Buckets an eighth of an octave wide, from 10 us to over an hour, for the percentiles of the stats
 * line: these are at most 9% too high. */
#define METRICS_FINE_BUCKETS 240
/* The upper end of such a bucket. */
double metrics_fine_bucket_ms(size_t bucket);

/* Where a job's time goes; names in metrics_time_names. */
enum metrics_time {
    METRICS_READ,
    METRICS_ADMIT,
    METRICS_DECODE,
    METRICS_H2D,
    METRICS_KERNEL,
    METRICS_D2H,
    METRICS_ENCODE,
    METRICS_TIMES
};
extern const char *const metrics_time_names[METRICS_TIMES];

/* How an attempt ends; all but the last one end the job, too. */
enum metrics_outcome {
    METRICS_DONE,
    METRICS_FAILED,
    METRICS_DEAD,
    METRICS_CANCELLED,
    METRICS_OUTCOMES,
    METRICS_RETRIED = METRICS_OUTCOMES
};
extern const char *const metrics_outcome_names[METRICS_OUTCOMES];

/* One end of an attempt. Times in milliseconds; negative: it did not get there. */
struct metrics_job {
    uint64_t number;
    uint32_t attempt;
    const char *input;         /* its name (label.h), or NULL; borrowed */
    const struct error *error; /* borrowed; NULL or STATUS_OK: none */
    enum metrics_outcome outcome;
    uint32_t images;
    uint64_t pixels, bytes_in, bytes_out;
    double ms[METRICS_TIMES], queue_ms, total_ms;
};

/* Attempts that ended in an error, the latest ones: what a status page has room for. */
#define METRICS_RECENT_MAX 16

struct metrics_error {
    double time_s; /* since 1970 */
    uint64_t job;
    uint32_t attempt;
    enum status status;
    bool retried;
    char input[LABEL_INPUT_BYTES_MAX + 1];
    char text[ERROR_TEXT_MAX];
};

struct metrics_totals {
    uint64_t attempts, retried;
    uint64_t returned; /* attempts that ended without a result: given back, or lost to another */
    uint64_t jobs[METRICS_OUTCOMES];
    uint64_t errors[STATUS_COUNT];
    uint64_t images, pixels, input_bytes, output_bytes;
    struct metrics_histogram times[METRICS_TIMES], job, queued;
    uint64_t fine[METRICS_FINE_BUCKETS]; /* of the times in `job` */
    struct metrics_error recent[METRICS_RECENT_MAX]; /* a ring; [recent_count % MAX] is next */
    uint64_t recent_count;
};

void metrics_count(struct metrics_totals *totals, const struct metrics_job *job);
/* Jobs that ended, whatever the outcome. */
uint64_t metrics_jobs(const struct metrics_totals *totals);
/* How many jobs worked in a stage, and their time together. false: jobs only wait in this stage. */
bool metrics_stage(const struct metrics_totals *totals, enum stage stage, uint64_t *jobs,
                   double *ms);

#endif
