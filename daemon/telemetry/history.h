/*
 * history.h - the last two minutes of what the status page draws, a sample per snapshot.
 *
 * The loop adds a sample with each snapshot; the thread of http/server.c writes a copy as JSON when
 * a page opens. All of it is plain data of a fixed size without pointers, so that a copy is whole.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_HISTORY_H
#define GPUIMGD_DAEMON_TELEMETRY_HISTORY_H

#include "daemon/telemetry/snapshot.h"

/* Two minutes of steps between snapshots, which come once per second; status.html has it too. */
#define HISTORY_SAMPLES 121

/* Counts since the start: rates are the differences between two samples. */
struct history_sample {
    uint64_t generation, taken_ns;
    double taken_s;
    uint64_t jobs[METRICS_OUTCOMES], pixels, input_bytes, output_bytes;
    struct {
        uint64_t count;
        double sum_s;
    } times[METRICS_TIMES];
    uint64_t job_counts[METRICS_BUCKETS + 1];
    double busy_s, loop_cpu_s;
    struct engine_activity devices[DEVICES_MAX];
    uint32_t device_count;
};

struct history {
    struct history_sample samples[HISTORY_SAMPLES]; /* a ring; [count % SAMPLES] is next */
    uint64_t count;
};

/* A snapshot less than half a second after the last one (a change of state) replaces it, so that
 * the samples go back two minutes. The first one, of the start, stays. */
void history_add(struct history *history, const struct snapshot *snapshot);

/* {"samples":[...]}, the oldest first, each with the keys of status.json that the page compares.
 * malloc'd; NULL when memory is short. */
char *history_json_write(const struct history *history);

#endif
