#include "daemon/telemetry/history.h"

#include <cjson/cJSON.h>

#include "conf/clock.h"

#define number(object, name, value) cJSON_AddNumberToObject(object, name, (double)(value))
#define object_in(object, name)     cJSON_AddObjectToObject(object, name)

static uint64_t count_of(const struct metrics_histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= METRICS_BUCKETS; i++)
        count += histogram->counts[i];
    return count;
}

static struct history_sample sample_of(const struct metrics *metrics)
{
    const struct metrics_totals *totals = &metrics->totals;
    struct history_sample sample = {
        .generation = metrics->generation,
        .taken_ns = metrics->taken_ns,
        .taken_s = metrics->taken_s,
        .done = totals->done,
        .failed = totals->failed,
        .dead = totals->dead,
        .cancelled = totals->cancelled,
        .pixels = totals->pixels,
        .input_bytes = totals->input_bytes,
        .output_bytes = totals->output_bytes,
        .busy_s = metrics->workers.busy_s,
        .loop_cpu_s = metrics->loop_cpu_s,
        .device_count = metrics->device_count,
    };
    for (size_t i = 0; i < METRICS_TIMES; i++) {
        sample.times[i].count = count_of(&totals->times[i]);
        sample.times[i].sum_s = totals->times[i].sum_s;
    }
    for (size_t i = 0; i <= METRICS_BUCKETS; i++)
        sample.job_counts[i] = totals->job.counts[i];
    for (uint32_t d = 0; d < metrics->device_count; d++)
        sample.devices[d] = metrics->devices[d].activity;
    return sample;
}

void history_add(struct history *history, const struct metrics *metrics)
{
    struct history_sample sample = sample_of(metrics);
    if (history->count > 0) {
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

static void write_jobs(cJSON *root, const struct history_sample *sample)
{
    cJSON *jobs = object_in(root, "jobs");
    number(jobs, "done", sample->done);
    number(jobs, "failed", sample->failed);
    number(jobs, "dead", sample->dead);
    number(jobs, "cancelled", sample->cancelled);
    number(jobs, "pixels", sample->pixels);
    number(jobs, "input_bytes", sample->input_bytes);
    number(jobs, "output_bytes", sample->output_bytes);
}

static void write_times(cJSON *root, const struct history_sample *sample)
{
    cJSON *times = object_in(root, "times");
    for (size_t i = 0; i < METRICS_TIMES; i++) {
        cJSON *one = object_in(times, metrics_time_names[i]);
        number(one, "count", sample->times[i].count);
        number(one, "sum_s", sample->times[i].sum_s);
    }
    cJSON *counts = cJSON_AddArrayToObject(object_in(times, "job"), "counts");
    for (size_t i = 0; i <= METRICS_BUCKETS; i++)
        cJSON_AddItemToArray(counts, cJSON_CreateNumber((double)sample->job_counts[i]));
}

static void write_machine(cJSON *root, const struct history_sample *sample)
{
    number(object_in(root, "workers"), "busy_s", sample->busy_s);
    number(object_in(root, "loop"), "cpu_s", sample->loop_cpu_s);
    cJSON *devices = cJSON_AddArrayToObject(root, "devices");
    for (uint32_t d = 0; d < sample->device_count; d++) {
        const struct engine_activity *activity = &sample->devices[d];
        cJSON *device = cJSON_CreateObject();
        cJSON_AddItemToArray(devices, device);
        number(device, "busy_s", activity->any_s);
        number(device, "kernel_s", activity->kernel_s);
        number(device, "up_s", activity->h2d_s);
        number(device, "down_s", activity->d2h_s);
        number(device, "up_bytes", activity->h2d_bytes);
        number(device, "down_bytes", activity->d2h_bytes);
    }
}

char *history_json_write(const struct history *history)
{
    cJSON *root = cJSON_CreateObject(), *samples = cJSON_AddArrayToObject(root, "samples");
    uint64_t first = history->count > HISTORY_SAMPLES ? history->count - HISTORY_SAMPLES : 0;
    for (uint64_t i = first; i < history->count; i++) {
        const struct history_sample *from = &history->samples[i % HISTORY_SAMPLES];
        cJSON *sample = cJSON_CreateObject();
        cJSON_AddItemToArray(samples, sample);
        number(sample, "generation", from->generation);
        number(sample, "time", from->taken_s);
        write_jobs(sample, from);
        write_times(sample, from);
        write_machine(sample, from);
    }
    char *json = root ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    return json;
}
