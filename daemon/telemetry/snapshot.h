/*
 * snapshot.h - a struct with the state of the whole daemon at one moment.
 *
 * monitor.c fills in the snapshot once per second and when the daemon's state changes. All that the
 * daemon reports about itself comes from it: /metrics, the status page, the heartbeat in Redis, the
 * stats line and systemd's STATUS=. The struct contains no pointers, so any thread may keep a copy.
 */
#pragma once

#include "codecs/process/process.h"
#include "daemon/telemetry/blocked.h"
#include "daemon/telemetry/metrics.h"
#include "daemon/telemetry/tags.h"
#include "gpu/engine/engine.h"
#include "queue/job/instance.h"

enum snapshot_state {
    SNAPSHOT_STARTING, /* until the self-test has passed */
    SNAPSHOT_RUNNING, SNAPSHOT_PAUSED, SNAPSHOT_DRAINING, SNAPSHOT_FAILED, SNAPSHOT_STATES
};
extern const char *const snapshot_state_names[SNAPSHOT_STATES];

/* Room for the longest value of the option namespace, with its NUL. */
#define SNAPSHOT_NAMESPACE_BYTES 129

enum snapshot_pool { SNAPSHOT_PINNED, SNAPSHOT_FILES, SNAPSHOT_CODECS, SNAPSHOT_POOLS };
extern const char *const snapshot_pool_names[SNAPSHOT_POOLS];
extern const char *const snapshot_list_names[JOB_PRIORITIES + 1];

struct snapshot_device {
    char name[32];
    struct engine_activity activity; /* since the start */
    struct pool_usage memory;        /* all 0 on the CPU engine */
    bool in_service;                 /* it runs jobs (daemon/selfcheck/gpu_check.h) */
};

/* One of several shards (Redis servers that share the jobs), and this daemon's jobs from it. */
struct snapshot_shard {
    char number[4]; /* "0" to "63" */
    bool up, paused;
    char reason[64]; /* why it is not up, or "" */
    uint64_t length, delayed, dead_listed, results, leases, unacknowledged;
};

/* A job with many images that runs. */
#define SNAPSHOT_SETS_MAX 16
struct snapshot_set {
    uint64_t number;
    uint32_t shard;
    char id[JOB_ID_BYTES_MAX + 1]; /* or "" */
    uint64_t images, failed;       /* that have ended, with the failed ones; and these */
    double fraction;               /* of the input that was read, 0 to 1 */
};

/* metrics.def describes most members: they are the sources of metrics. */
struct snapshot {
    uint64_t generation;  /* the number of this snapshot: 1, 2, ... */
    uint64_t taken_ns;    /* when the snapshot was taken, CLOCK_MONOTONIC */
    double taken_s;       /* the same moment in seconds since 1970 */
    uint64_t began_ns;    /* when the daemon started, CLOCK_MONOTONIC */
    double began_s;       /* the same moment in seconds since 1970 */
    enum snapshot_state state;
    char why[ERROR_TEXT_MAX]; /* reason for SNAPSHOT_FAILED */
    bool moving;              /* pipeline_healthy: jobs make progress */
    bool disk_works;          /* outputs can be written */
    char disk_reason[ERROR_TEXT_MAX]; /* why outputs cannot be written, or "" */
    char keys_reason[ERROR_TEXT_MAX]; /* why transfers wait for keys of a role, or "" */
    struct blocked_memory lack;       /* of the first job that waits for memory */
    struct blocked blocked;
    char daemon[INSTANCE_BYTES_MAX];
    char engine[32], engine_description[160];
    char namespace[SNAPSHOT_NAMESPACE_BYTES];

    struct metrics_totals totals;
    double images_per_s; /* during the last stats interval */
    double jobs_s, pixels_s; /* jobs that ended, and pixels, per second of the last 10 to 20 s */
    double lease_s;          /* the option */
    uint32_t in_stage[STAGE_COUNT], in_flight, in_flight_max;
    uint32_t waiting;   /* jobs that wait for memory */
    uint32_t abandoned; /* jobs with a result on which a worker or a device still works */
    double oldest_s;    /* time since the fetch of the oldest job in flight */

    bool redis_ready; /* Redis is connected and accepts commands; of several shards, at least one */
    char redis_reason[ERROR_TEXT_MAX + 32], redis_version[32];
    uint64_t results, results_max, dead_listed, dead_max, delayed;
    /* Lengths of the lists of waiting jobs: NS:jobs:0 to NS:jobs:9, then NS:jobs. */
    uint64_t queue_lengths[JOB_PRIORITIES + 1];
    double queue_oldest_s;
    uint64_t queue_length, unacknowledged, redelivered, stale, dropped, trimmed, reconnects;

    struct pool_usage pools[SNAPSHOT_POOLS];
    struct snapshot_device devices[DEVICES_MAX];
    uint32_t device_count; /* 1 on the CPU engine */
    uint32_t streams;      /* sum over all devices; 0 on the CPU engine */

    uint32_t workers_max;  /* the option workers */
    uint32_t workers, workers_busy, workers_replaced;
    double workers_busy_s; /* sum over all workers */
    double loop_cpu_s, loop_lag_s;
    uint64_t sweeps, swept_files;
    uint64_t codecs_replaced[CODEC_REPLACE_REASONS]; /* codec processes replaced, by reason */
    uint64_t gpu_check_runs, gpu_check_failures; /* each check of each device counts */
    double process_cpu_s, resident_bytes;
    uint32_t open_files;

    uint32_t set_count;
    struct snapshot_set sets[SNAPSHOT_SETS_MAX]; /* the oldest ones */

    uint32_t shard_count;
    /* The history does not copy the unused shards and the last member. */
    struct snapshot_shard shards[SHARDS_MAX]; /* empty for one shard */
    struct tags tags;
};

/* Copies a snapshot with only as many shards as it has, and without tags. The history copies one
 * each second, and most daemons have one shard. */
void snapshot_copy(struct snapshot *to, const struct snapshot *from);

/* Fills in the CPU time, memory and open files of this process. */
void snapshot_read_process(struct snapshot *snapshot);

/* The loop is considered stuck when the last snapshot is older than this: ten missed snapshots, and
 * half of the unit's WatchdogSec. */
#define SNAPSHOT_STALL_S 10

/* Whether the process works, so that it need not be restarted (/healthz). A start may last
 * START_S_MAX. Sets `why` to the reason if the result is false, else to the name of the state. Any
 * thread. */
bool snapshot_alive(const struct snapshot *snapshot, uint64_t now_ns, char *why, size_t size);
/* Whether the daemon fetches jobs (/readyz). `why` is as above. Any thread. */
bool snapshot_ready(const struct snapshot *snapshot, uint64_t now_ns, char *why, size_t size);
