#include "daemon/telemetry/history.h"

#include <string.h>

#include "conf/clock.h"
#include "daemon/telemetry/status_json.h"

static struct history_sample sample_of(const struct snapshot *snapshot)
{
    const struct metrics_totals *totals = &snapshot->totals;
    struct history_sample sample = {
        .generation = snapshot->generation,
        .taken_ns = snapshot->taken_ns,
        .taken_s = snapshot->taken_s,
        .pixels = totals->pixels,
        .input_bytes = totals->input_bytes,
        .output_bytes = totals->output_bytes,
        .busy_s = snapshot->workers_busy_s,
        .loop_cpu_s = snapshot->loop_cpu_s,
        .device_count = snapshot->device_count,
    };
    for (size_t i = 0; i < METRICS_TIMES; i++) {
        sample.times[i].count = metrics_histogram_count(&totals->times[i]);
        sample.times[i].sum_s = totals->times[i].sum_s;
    }
    memcpy(sample.jobs, totals->jobs, sizeof sample.jobs);
    memcpy(sample.job_counts, totals->job.counts, sizeof sample.job_counts);
    for (uint32_t d = 0; d < snapshot->device_count; d++)
        sample.devices[d] = snapshot->devices[d].activity;
    return sample;
}

void history_add(struct history *history, const struct snapshot *snapshot)
{
    struct history_sample sample = sample_of(snapshot);
    if (history->count > 1) {
        struct history_sample *last =
            &history->samples[(history->count - 1) % HISTORY_SAMPLES];
        if (sample.taken_ns - last->taken_ns < NS_PER_S / 2) {
            *last = sample;
            return;
        }
    }
    history->samples[history->count++ % HISTORY_SAMPLES] = sample;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void write_jobs(struct writer *w, const struct history_sample *sample)
{
    writer_open(w, "jobs", '{');
    for (size_t i = 0; i < METRICS_OUTCOMES; i++)
        writer_number(w, metrics_outcome_names[i], sample->jobs[i]);
    writer_number(w, "pixels", sample->pixels);
    writer_number(w, "input_bytes", sample->input_bytes);
    writer_number(w, "output_bytes", sample->output_bytes);
    writer_close(w, '}');
}

static void write_times(struct writer *w, const struct history_sample *sample)
{
    writer_open(w, "times", '{');
    for (size_t i = 0; i < METRICS_TIMES; i++) {
        writer_open(w, metrics_time_names[i], '{');
        writer_number(w, "count", sample->times[i].count);
        status_json_seconds(w, "sum_s", sample->times[i].sum_s);
        writer_close(w, '}');
    }
    writer_open(w, "job", '{');
    status_json_counts(w, "counts", sample->job_counts);
    writer_close(w, '}');
    writer_close(w, '}');
}

static void write_machine(struct writer *w, const struct history_sample *sample)
{
    writer_open(w, "workers", '{');
    status_json_seconds(w, "busy_s", sample->busy_s);
    writer_close(w, '}');
    writer_open(w, "loop", '{');
    status_json_seconds(w, "cpu_s", sample->loop_cpu_s);
    writer_close(w, '}');
    writer_open(w, "devices", '[');
    for (uint32_t d = 0; d < sample->device_count; d++) {
        writer_open(w, NULL, '{');
        status_json_activity(w, &sample->devices[d]);
        writer_close(w, '}');
    }
    writer_close(w, ']');
}

char *history_json_write(const struct history *history)
{
    struct writer w = {0};
    uint64_t first = history->count > HISTORY_SAMPLES ? history->count - HISTORY_SAMPLES : 0;
    writer_open(&w, NULL, '{');
    writer_open(&w, "samples", '[');
    for (uint64_t i = first; i < history->count; i++) {
        const struct history_sample *sample = &history->samples[i % HISTORY_SAMPLES];
        writer_open(&w, NULL, '{');
        writer_number(&w, "generation", sample->generation);
        status_json_seconds(&w, "time", sample->taken_s);
        write_jobs(&w, sample);
        write_times(&w, sample);
        write_machine(&w, sample);
        writer_close(&w, '}');
    }
    writer_close(&w, ']');
    writer_close(&w, '}');
    return writer_finish(&w);
}
