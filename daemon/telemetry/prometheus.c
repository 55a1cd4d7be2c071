#include "daemon/telemetry/prometheus.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "daemon/pipeline/pipeline.h"

/* What an emitter writes with. */
struct sheet {
    FILE *out;
    const struct metrics *metrics;
    uint64_t now_ns;
    const char *name; /* of the row that is being written */
};

/* ---- samples -------------------------------------------------------------------------------- */

/* A label's value; what the format gives a meaning is escaped. */
static void put_escaped(FILE *out, const char *value)
{
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            fprintf(out, "\\%c", *value);
        else if (*value == '\n')
            fputs("\\n", out);
        else
            fputc(*value, out);
    }
}

/* Labels are pairs of name and value, ended by NULL, after that of the namespace, which each sample
 * has; `suffix` follows the name. */
struct labels {
    const char *pairs[7];
};

static void put_name(const struct sheet *sheet, const char *suffix, const struct labels *labels)
{
    fprintf(sheet->out, "%s%s{namespace=\"", sheet->name, suffix);
    put_escaped(sheet->out, sheet->metrics->namespace);
    fputc('"', sheet->out);
    for (size_t i = 0; labels->pairs[i]; i += 2) {
        fprintf(sheet->out, ",%s=\"", labels->pairs[i]);
        put_escaped(sheet->out, labels->pairs[i + 1]);
        fputc('"', sheet->out);
    }
    fputc('}', sheet->out);
}

#define LABELS(...) (&(const struct labels){{__VA_ARGS__}})

static void put(const struct sheet *sheet, const struct labels *labels, double value)
{
    put_name(sheet, "", labels);
    /* Counters stay whole to 2^53; 17 digits would show the last bit of binary fractions. */
    fprintf(sheet->out, " %.16g\n", value);
}

static void put_histogram(const struct sheet *sheet, const char *label, const char *value,
                          const struct metrics_histogram *histogram)
{
    uint64_t count = 0;
    char end[32];
    for (size_t i = 0; i <= METRICS_BUCKETS; i++) {
        count += histogram->counts[i];
        if (i < METRICS_BUCKETS)
            snprintf(end, sizeof end, "%g", metrics_bucket_s[i]);
        else
            snprintf(end, sizeof end, "+Inf");
        put_name(sheet, "_bucket",
                 label ? LABELS(label, value, "le", end) : LABELS("le", end));
        fprintf(sheet->out, " %" PRIu64 "\n", count);
    }
    const struct labels *labels = label ? LABELS(label, value) : LABELS(NULL);
    put_name(sheet, "_sum", labels);
    fprintf(sheet->out, " %.16g\n", histogram->sum_s);
    put_name(sheet, "_count", labels);
    fprintf(sheet->out, " %" PRIu64 "\n", count);
}

/* ---- rows of one plain number --------------------------------------------------------------- */

#define PLAIN(emit, value)                                                                         \
    static void emit(const struct sheet *sheet)                                                    \
    {                                                                                              \
        const struct metrics *m = sheet->metrics;                                                  \
        put(sheet, LABELS(NULL), (double)(value));                                                 \
    }
PLAIN(emit_attempts, m->totals.attempts)
PLAIN(emit_retries, m->totals.retried)
PLAIN(emit_returned, m->totals.returned)
PLAIN(emit_images, m->totals.images)
PLAIN(emit_pixels, m->totals.pixels)
PLAIN(emit_input_bytes, m->totals.input_bytes)
PLAIN(emit_output_bytes, m->totals.output_bytes)
PLAIN(emit_in_flight, m->in_flight)
PLAIN(emit_in_flight_limit, m->in_flight_max)
PLAIN(emit_waiting, m->waiting)
PLAIN(emit_abandoned, m->abandoned)
PLAIN(emit_oldest, m->oldest_s)
PLAIN(emit_queue_jobs, m->queue_length)
PLAIN(emit_queue_delayed, m->delayed)
PLAIN(emit_queue_dead, m->dead_listed)
PLAIN(emit_queue_dead_limit, m->dead_max)
PLAIN(emit_queue_results, m->results)
PLAIN(emit_queue_results_limit, m->results_max)
PLAIN(emit_unacknowledged, m->unacknowledged)
PLAIN(emit_redelivered, m->redelivered)
PLAIN(emit_stale, m->stale)
PLAIN(emit_dropped, m->dropped)
PLAIN(emit_trimmed, m->trimmed)
PLAIN(emit_redis_up, m->redis_ready)
PLAIN(emit_output_root_up, m->disk_works)
PLAIN(emit_reconnects, m->reconnects)
PLAIN(emit_worker_busy, m->workers.busy_s)
PLAIN(emit_workers_replaced, m->workers_replaced)
PLAIN(emit_loop_cpu, m->loop_cpu_s)
PLAIN(emit_loop_lag, m->loop_lag_s)
PLAIN(emit_sweeps, m->sweeps)
PLAIN(emit_swept, m->swept_files)
PLAIN(emit_canary_runs, m->canary.runs)
PLAIN(emit_canary_failures, m->canary.failures)
PLAIN(emit_process_start, m->began_s)
#undef PLAIN

/* ---- rows with labels ----------------------------------------------------------------------- */

static void emit_info(const struct sheet *sheet)
{
    const struct metrics *m = sheet->metrics;
    put(sheet, LABELS("version", GPUIMGD_VERSION, "engine", m->engine, "redis", m->redis_version),
        1);
}

static void emit_state(const struct sheet *sheet)
{
    for (enum metrics_state state = 0; state < METRICS_STATES; state++)
        put(sheet, LABELS("state", metrics_state_names[state]), sheet->metrics->state == state);
}

static void emit_healthy(const struct sheet *sheet)
{
    char why[ERROR_TEXT_MAX];
    put(sheet, LABELS(NULL), metrics_alive(sheet->metrics, sheet->now_ns, why, sizeof why));
}

static void emit_ready(const struct sheet *sheet)
{
    char why[ERROR_TEXT_MAX];
    put(sheet, LABELS(NULL), metrics_ready(sheet->metrics, sheet->now_ns, why, sizeof why));
}

static void emit_jobs(const struct sheet *sheet)
{
    const struct metrics_totals *totals = &sheet->metrics->totals;
    put(sheet, LABELS("outcome", "done"), (double)totals->done);
    put(sheet, LABELS("outcome", "failed"), (double)totals->failed);
    put(sheet, LABELS("outcome", "dead"), (double)totals->dead);
    put(sheet, LABELS("outcome", "cancelled"), (double)totals->cancelled);
}

/* All codes from the first scrape on: a counter that appears with its first error shows no rise. */
static void emit_errors(const struct sheet *sheet)
{
    for (enum status status = STATUS_OK + 1; status < STATUS_COUNT; status++)
        put(sheet, LABELS("code", status_name(status)),
            (double)sheet->metrics->totals.errors[status]);
}

static void emit_job_duration(const struct sheet *sheet)
{
    put_histogram(sheet, NULL, NULL, &sheet->metrics->totals.job);
}

static void emit_queue_wait(const struct sheet *sheet)
{
    put_histogram(sheet, NULL, NULL, &sheet->metrics->totals.queued);
}

static void emit_stage_duration(const struct sheet *sheet)
{
    for (size_t i = 0; i < METRICS_TIMES; i++)
        put_histogram(sheet, "stage", metrics_time_names[i], &sheet->metrics->totals.times[i]);
}

static void emit_stage_jobs(const struct sheet *sheet)
{
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        put(sheet, LABELS("stage", pipeline_stage_name(stage)), sheet->metrics->in_stage[stage]);
}

static void put_pools(const struct sheet *sheet, size_t (*value)(const struct pool_usage *))
{
    const struct metrics *m = sheet->metrics;
    put(sheet, LABELS("pool", "pinned"), (double)value(&m->pinned));
    put(sheet, LABELS("pool", "files"), (double)value(&m->files));
    put(sheet, LABELS("pool", "codecs"), (double)value(&m->codecs));
}

static void put_device_pools(const struct sheet *sheet, size_t (*value)(const struct pool_usage *))
{
    const struct metrics *m = sheet->metrics;
    for (uint32_t d = 0; d < m->device_count; d++)
        if (m->devices[d].memory.budget > 0)
            put(sheet, LABELS("device", m->devices[d].name), (double)value(&m->devices[d].memory));
}

#define POOLS(name)                                                                                \
    static size_t value_of_##name(const struct pool_usage *usage)                                  \
    {                                                                                              \
        return usage->name;                                                                        \
    }
POOLS(used)
POOLS(held)
POOLS(budget)
#undef POOLS

static void emit_pool_used(const struct sheet *sheet)
{
    put_pools(sheet, value_of_used);
}

static void emit_pool_held(const struct sheet *sheet)
{
    put_pools(sheet, value_of_held);
}

static void emit_pool_limit(const struct sheet *sheet)
{
    put_pools(sheet, value_of_budget);
}

static void emit_device_used(const struct sheet *sheet)
{
    put_device_pools(sheet, value_of_used);
}

static void emit_device_held(const struct sheet *sheet)
{
    put_device_pools(sheet, value_of_held);
}

static void emit_device_limit(const struct sheet *sheet)
{
    put_device_pools(sheet, value_of_budget);
}

static void emit_device_busy(const struct sheet *sheet)
{
    const struct metrics *m = sheet->metrics;
    for (uint32_t d = 0; d < m->device_count; d++)
        put(sheet, LABELS("device", m->devices[d].name), m->devices[d].activity.any_s);
}

static void emit_device_kernel(const struct sheet *sheet)
{
    const struct metrics *m = sheet->metrics;
    for (uint32_t d = 0; d < m->device_count; d++)
        put(sheet, LABELS("device", m->devices[d].name), m->devices[d].activity.kernel_s);
}

static void put_up_and_down(const struct sheet *sheet, const char *device, double up, double down)
{
    put(sheet, LABELS("device", device, "direction", "up"), up);
    put(sheet, LABELS("device", device, "direction", "down"), down);
}

static void emit_device_copy(const struct sheet *sheet)
{
    for (uint32_t d = 0; d < sheet->metrics->device_count; d++) {
        const struct metrics_device *device = &sheet->metrics->devices[d];
        put_up_and_down(sheet, device->name, device->activity.h2d_s, device->activity.d2h_s);
    }
}

static void emit_device_copied(const struct sheet *sheet)
{
    for (uint32_t d = 0; d < sheet->metrics->device_count; d++) {
        const struct metrics_device *device = &sheet->metrics->devices[d];
        put_up_and_down(sheet, device->name, (double)device->activity.h2d_bytes,
                        (double)device->activity.d2h_bytes);
    }
}

static void emit_device_turns(const struct sheet *sheet)
{
    const struct metrics *m = sheet->metrics;
    for (uint32_t d = 0; d < m->device_count; d++)
        put(sheet, LABELS("device", m->devices[d].name), (double)m->devices[d].activity.turns);
}

static void emit_device_tasks(const struct sheet *sheet)
{
    const struct metrics *m = sheet->metrics;
    for (uint32_t d = 0; d < m->device_count; d++)
        put(sheet, LABELS("device", m->devices[d].name), (double)m->devices[d].activity.tasks);
}

static void emit_workers(const struct sheet *sheet)
{
    const struct workers_usage *workers = &sheet->metrics->workers;
    put(sheet, LABELS("state", "busy"), workers->busy);
    put(sheet, LABELS("state", "idle"), workers->threads - workers->busy);
}

/* ---- the process ---------------------------------------------------------------------------- */

static void emit_process_cpu(const struct sheet *sheet)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    put(sheet, LABELS(NULL),
        (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
            (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
}

static void emit_process_memory(const struct sheet *sheet)
{
    put(sheet, LABELS(NULL), stats_rss_bytes());
}

static void emit_process_fds(const struct sheet *sheet)
{
    DIR *folder = opendir("/proc/self/fd");
    double count = 0;
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    put(sheet, LABELS(NULL), count - 1); /* without the folder's own */
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct {
    struct exposition_row row;
    void (*emit)(const struct sheet *sheet);
} rows[] = {
#define METRIC(name, type, unit, emit, help)                                                       \
    {{name, EXPOSITION_##type, EXPOSITION_##unit, help}, emit},
#include "daemon/telemetry/metrics.def"
#undef METRIC
};

size_t exposition_rows(void)
{
    return sizeof rows / sizeof rows[0];
}

struct exposition_row exposition_row(size_t index)
{
    return rows[index].row;
}

char *exposition_write(const struct metrics *metrics, uint64_t now_ns, size_t *length)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    if (!out)
        return NULL;
    for (size_t i = 0; i < exposition_rows(); i++) {
        const struct exposition_row *row = &rows[i].row;
        struct sheet sheet = {out, metrics, now_ns, row->name};
        fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
                types[row->type]);
        rows[i].emit(&sheet);
    }
    bool whole = !ferror(out);
    if (fclose(out) != 0 || !whole) {
        free(text);
        return NULL;
    }
    return text;
}
