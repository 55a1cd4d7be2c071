/*
 * metrics.h - counts the jobs of this daemon: outcomes, errors, bytes and durations.
 *
 * An attempt is one try of a daemon to run a job. The pipeline calls metrics_count when an attempt
 * ends. All counts of jobs that the daemon publishes (snapshot.h) come from struct metrics_totals.
 * The struct contains no pointers, so an assignment copies it. Loop thread only.
 */
#pragma once

#include "daemon/telemetry/job_stages.h"
#include "queue/job/job.h"

/* Upper bounds of the histogram buckets, in seconds: from the copy of a small image to a device, to
 * the default of job_timeout_s. Each bound is 2 to 2.5 times the previous one. */
#define METRICS_BUCKETS 19
extern const double metrics_bucket_s[METRICS_BUCKETS];

struct metrics_histogram {
    uint64_t counts[METRICS_BUCKETS + 1]; /* not cumulative; the last bucket has no upper bound */
    double sum_s;
};
uint64_t metrics_histogram_count(const struct metrics_histogram *histogram);

/* Finer buckets for the percentiles of the stats line: eight per factor of two, from 10 us to more
 * than an hour. So a percentile is at most 9% too high (2^(1/8) = 1.09). */
#define METRICS_FINE_BUCKETS 240
/* The upper bound of a fine bucket. */
double metrics_fine_bucket_ms(size_t bucket);

/* What a job spends its time with. H2D and D2H are copies to the device and back. */
enum metrics_time {
    METRICS_READ, METRICS_ADMIT, METRICS_DECODE, METRICS_H2D, METRICS_KERNEL, METRICS_D2H,
    METRICS_ENCODE, METRICS_TIMES
};
extern const char *const metrics_time_names[METRICS_TIMES];

/* How an attempt ends. METRICS_RETRIED is the only outcome after which the job goes on. */
enum metrics_outcome {
    METRICS_DONE, METRICS_FAILED, METRICS_DEAD, METRICS_CANCELLED, METRICS_OUTCOMES,
    METRICS_RETRIED = METRICS_OUTCOMES
};
extern const char *const metrics_outcome_names[METRICS_OUTCOMES];

/* Where an image is decoded or encoded: on the host's workers or on a device. */
enum metrics_place { METRICS_HOST, METRICS_DEVICE, METRICS_PLACES };
extern const char *const metrics_place_names[METRICS_PLACES];

/* Images that were decoded, or encoded, by place. */
struct metrics_codec {
    uint64_t images[METRICS_PLACES], pixels[METRICS_PLACES];
};

/* Transfers of images from and to URLs. */
enum transfer_direction { TRANSFER_DOWNLOAD, TRANSFER_UPLOAD, TRANSFER_DIRECTIONS };
extern const char *const transfer_direction_names[TRANSFER_DIRECTIONS];

struct metrics_urls {
    uint64_t requests[TRANSFER_DIRECTIONS]; /* transfers that ended; redirects do not count */
    uint64_t failed[TRANSFER_DIRECTIONS];
    uint64_t bytes[TRANSFER_DIRECTIONS]; /* of images, without failed transfers */
    uint64_t role_errors;                /* requests for keys of roles that gave none */
};

/* The end of one attempt. Times are in milliseconds; negative: the attempt did not get that far. */
struct metrics_job {
    uint64_t number;
    uint32_t shard, shards; /* its shard, and how many there are */
    uint32_t attempt;
    const char *input;         /* name of the input, for the list of errors; or NULL; borrowed */
    const char *tag;           /* the job's, or NULL; borrowed */
    const struct error *error; /* borrowed; NULL or STATUS_OK: no error */
    enum metrics_outcome outcome;
    uint32_t images; /* written */
    uint64_t pixels, bytes_in, bytes_out;
    struct metrics_codec decoder; /* the input of a job that is done */
    struct metrics_codec encoder; /* the images written */
    bool declined;                /* a device could not decode the input, or encode an output */
    double ms[METRICS_TIMES];
    double queue_ms; /* from the push by a client to the fetch */
    double total_ms; /* from the fetch to the end */
};

/* The status page shows this many of the latest errors. */
#define METRICS_RECENT_MAX 16

struct metrics_error {
    double time_s; /* seconds since 1970 */
    uint64_t job;
    uint32_t shard, shards; /* as in struct metrics_job */
    uint32_t attempt;
    enum status status;
    bool retried;
    char input[LABEL_INPUT_BYTES_MAX + 1];
    char text[ERROR_TEXT_MAX];
};

struct metrics_totals {
    uint64_t attempts, retried;
    uint64_t returned; /* attempts without a result: the job was not due, was given back, or was
                          taken by another daemon */
    uint64_t jobs[METRICS_OUTCOMES];
    uint64_t errors[STATUS_COUNT];
    uint64_t images, pixels, input_bytes, output_bytes;
    uint64_t images_failed; /* of jobs with many images */
    struct metrics_codec decoder, encoder;
    uint64_t declined;
    struct metrics_urls urls;
    struct metrics_histogram times[METRICS_TIMES], job, queued;
    uint64_t fine[METRICS_FINE_BUCKETS]; /* the durations of `job`, in finer buckets */
    /* The latest errors, as a ring: the next one replaces [recent_count % METRICS_RECENT_MAX]. */
    struct metrics_error recent[METRICS_RECENT_MAX];
    uint64_t recent_count;
};

void metrics_count(struct metrics_totals *totals, const struct metrics_job *job);
/* Counts what an image of a job with many images adds, but not the job. */
void metrics_count_image(struct metrics_totals *totals, const struct metrics_job *image);
/* The number of jobs that have ended, with any outcome. */
uint64_t metrics_jobs(const struct metrics_totals *totals);
/* Sets *jobs to the number of jobs that have passed a stage, and *ms to the sum of their times in
 * it. false: no time is measured for this stage; neither is set. */
bool metrics_stage(const struct metrics_totals *totals, enum stage stage, uint64_t *jobs,
                   double *ms);
