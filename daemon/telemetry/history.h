/*
 * history.h - the samples of the last two minutes, from which the status page draws its charts.
 *
 * The loop adds one sample per snapshot. When a browser opens the page, the HTTP thread copies the
 * history and writes the copy as JSON. There are no pointers, so an assignment copies all of it.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_HISTORY_H
#define GPUIMGD_DAEMON_TELEMETRY_HISTORY_H

#include "daemon/telemetry/snapshot.h"

/* Two minutes with one snapshot per second. status.html has the same number (KEPT). */
#define HISTORY_SAMPLES 121

/* All counts start with the daemon: the page computes a rate from two samples. */
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

/* Adds a sample. A snapshot that follows another one within 0.5 s (a change of state) replaces its
 * sample, so that the samples always cover two minutes. The first sample is never replaced. */
void history_add(struct history *history, const struct snapshot *snapshot);

/* Returns {"samples":[...]}, oldest first. The keys of a sample are a subset of status.json's. The
 * caller frees the text; NULL: out of memory. */
char *history_json_write(const struct history *history);

#endif
