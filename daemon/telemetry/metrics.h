/*
 * metrics.h - what is counted since the start, and the snapshot of the daemon that HTTP shows.
 *
 * The loop counts and fills the snapshot in; a copy of it goes to the thread of server.c. All of it
 * is plain data without pointers, so that a copy is whole. Functions here keep no state.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_METRICS_H
#define GPUIMGD_DAEMON_TELEMETRY_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/limits.h"
#include "conf/status.h"
#include "daemon/pipeline/work.h"
#include "daemon/pipeline/workers.h"
#include "daemon/selfcheck/canary.h"
#include "daemon/telemetry/stats.h"
#include "gpu/engine/engine.h"
#include "queue/job/instance.h"
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
    uint64_t attempts, done, failed, dead, cancelled, retried, returned;
    uint64_t errors[STATUS_COUNT];
    uint64_t images, pixels, input_bytes, output_bytes;
    struct metrics_histogram times[METRICS_TIMES], job, queued;
    struct metrics_error recent[METRICS_RECENT_MAX]; /* a ring; [recent_count % MAX] is next */
    uint64_t recent_count;
};

/* One job's end, or one attempt's. */
void metrics_count(struct metrics_totals *totals, const struct stats_job *job);

enum metrics_state {
    METRICS_STARTING, /* until the self-test has passed */
    METRICS_RUNNING,
    METRICS_PAUSED,
    METRICS_DRAINING,
    METRICS_FAILED,
    METRICS_STATES
};
extern const char *const metrics_state_names[METRICS_STATES];

/* The option's bound, and a NUL. */
#define METRICS_NAMESPACE_BYTES 129

struct metrics_device {
    char name[32];
    struct engine_activity activity; /* since the start */
    struct pool_usage memory;        /* all 0: of the CPU engine */
};

struct metrics {
    uint64_t generation;  /* 1, 2, ... */
    uint64_t taken_ns;    /* CLOCK_MONOTONIC */
    double taken_s;       /* since 1970 */
    double began_s;       /* the daemon's start, since 1970 */
    enum metrics_state state;
    char why[ERROR_TEXT_MAX]; /* of METRICS_FAILED */
    bool moving;          /* pipeline_healthy */
    bool disk_works;      /* outputs can be written */
    char disk_reason[ERROR_TEXT_MAX]; /* why not, or "" */
    char daemon[INSTANCE_BYTES_MAX];
    char engine[32], engine_description[160];
    char namespace[METRICS_NAMESPACE_BYTES];

    struct metrics_totals totals;
    uint32_t in_stage[STAGE_COUNT], in_flight, in_flight_max, waiting, abandoned;
    double oldest_s;

    bool redis_ready;
    char redis_reason[ERROR_TEXT_MAX + 32], redis_version[32];
    uint64_t results, results_max, dead_listed, dead_max, delayed;
    uint64_t queue_length, unacknowledged, redelivered, stale, dropped, trimmed, reconnects;

    struct pool_usage pinned, files, codecs;
    struct metrics_device devices[DEVICES_MAX];
    uint32_t device_count; /* 1 for the CPU engine */

    struct workers_usage workers;
    uint32_t workers_replaced;
    double loop_cpu_s, loop_lag_s;
    uint64_t sweeps, swept_files;
    struct canary_counts canary;
};

/* A loop that has not been heard of for so long stands still: ten snapshots, and half of the
 * unit's WatchdogSec. */
#define METRICS_STALL_S 10

/* Whether the process should live on (/healthz), and whether it takes jobs (/readyz). Where not,
 * `why` gets a sentence; where so, its state. now_ns: CLOCK_MONOTONIC. */
bool metrics_alive(const struct metrics *metrics, uint64_t now_ns, char *why, size_t size);
bool metrics_ready(const struct metrics *metrics, uint64_t now_ns, char *why, size_t size);

#endif
