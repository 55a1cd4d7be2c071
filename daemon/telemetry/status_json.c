#include "daemon/telemetry/status_json.h"

#include <cjson/cJSON.h>

#include "daemon/pipeline/pipeline.h"

#define number(object, name, value) cJSON_AddNumberToObject(object, name, (double)(value))
#define text(object, name, value)   cJSON_AddStringToObject(object, name, value)
#define truth(object, name, value)  cJSON_AddBoolToObject(object, name, value)
#define object_in(object, name)     cJSON_AddObjectToObject(object, name)

static cJSON *append_object(cJSON *array)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddItemToArray(array, object);
    return object;
}

static void add_self(cJSON *root, const struct metrics *metrics, uint64_t now_ns)
{
    char why[ERROR_TEXT_MAX + 64];
    text(root, "version", GPUIMGD_VERSION);
    text(root, "daemon", metrics->daemon);
    text(root, "engine", metrics->engine);
    text(root, "description", metrics->engine_description);
    text(root, "state", metrics_state_names[metrics->state]);
    truth(root, "healthy", metrics_alive(metrics, now_ns, why, sizeof why));
    truth(root, "ready", metrics_ready(metrics, now_ns, why, sizeof why));
    text(root, "verdict", why);
    number(root, "generation", metrics->generation);
    number(root, "time", metrics->taken_s);
    number(root, "began", metrics->began_s);
    number(root, "resident_bytes", stats_rss_bytes());
}

static void add_disk(cJSON *root, const struct metrics *metrics)
{
    cJSON *disk = object_in(root, "output_root");
    truth(disk, "up", metrics->disk_works);
    text(disk, "reason", metrics->disk_reason);
}

static void add_redis(cJSON *root, const struct metrics *metrics)
{
    cJSON *redis = object_in(root, "redis");
    truth(redis, "up", metrics->redis_ready);
    text(redis, "reason", metrics->redis_reason);
    text(redis, "version", metrics->redis_version);
    number(redis, "reconnects", metrics->reconnects);
    number(redis, "queue", metrics->queue_length);
    number(redis, "unacknowledged", metrics->unacknowledged);
    number(redis, "redelivered", metrics->redelivered);
}

static void add_jobs(cJSON *root, const struct metrics *metrics)
{
    const struct metrics_totals *totals = &metrics->totals;
    cJSON *jobs = object_in(root, "jobs");
    number(jobs, "attempts", totals->attempts);
    number(jobs, "done", totals->done);
    number(jobs, "failed", totals->failed);
    number(jobs, "dead", totals->dead);
    number(jobs, "cancelled", totals->cancelled);
    number(jobs, "retried", totals->retried);
    number(jobs, "returned", totals->returned);
    number(jobs, "images", totals->images);
    number(jobs, "pixels", totals->pixels);
    number(jobs, "input_bytes", totals->input_bytes);
    number(jobs, "output_bytes", totals->output_bytes);
    number(jobs, "in_flight", metrics->in_flight);
    number(jobs, "in_flight_limit", metrics->in_flight_max);
    number(jobs, "oldest_s", metrics->oldest_s);
    cJSON *stages = object_in(jobs, "stages");
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        number(stages, pipeline_stage_name(stage), metrics->in_stage[stage]);
}

static void add_histogram(cJSON *times, const char *name, const struct metrics_histogram *histogram)
{
    cJSON *one = object_in(times, name), *counts = cJSON_AddArrayToObject(one, "counts");
    number(one, "sum_s", histogram->sum_s);
    for (size_t i = 0; i <= METRICS_BUCKETS; i++)
        cJSON_AddItemToArray(counts, cJSON_CreateNumber((double)histogram->counts[i]));
}

static void add_times(cJSON *root, const struct metrics *metrics)
{
    cJSON *times = object_in(root, "times");
    cJSON_AddItemToObject(root, "bucket_s",
                          cJSON_CreateDoubleArray(metrics_bucket_s, METRICS_BUCKETS));
    for (size_t i = 0; i < METRICS_TIMES; i++)
        add_histogram(times, metrics_time_names[i], &metrics->totals.times[i]);
    add_histogram(times, "job", &metrics->totals.job);
}

static void add_pool(cJSON *pools, const char *name, const struct pool_usage *usage)
{
    cJSON *pool = append_object(pools);
    text(pool, "name", name);
    number(pool, "used", usage->used);
    number(pool, "held", usage->held);
    number(pool, "limit", usage->budget);
}

static void add_machine(cJSON *root, const struct metrics *metrics)
{
    cJSON *workers = object_in(root, "workers"), *loop = object_in(root, "loop");
    number(workers, "threads", metrics->workers.threads);
    number(workers, "busy", metrics->workers.busy);
    number(workers, "busy_s", metrics->workers.busy_s);
    number(workers, "replaced", metrics->workers_replaced);
    number(loop, "cpu_s", metrics->loop_cpu_s);
    number(loop, "lag_s", metrics->loop_lag_s);
    cJSON *canary = object_in(root, "canary");
    number(canary, "runs", metrics->canary.runs);
    number(canary, "failures", metrics->canary.failures);
    cJSON *pools = cJSON_AddArrayToObject(root, "pools");
    add_pool(pools, "pinned", &metrics->pinned);
    add_pool(pools, "files", &metrics->files);
    add_pool(pools, "codecs", &metrics->codecs);
    cJSON *devices = cJSON_AddArrayToObject(root, "devices");
    for (uint32_t d = 0; d < metrics->device_count; d++) {
        const struct metrics_device *from = &metrics->devices[d];
        cJSON *device = append_object(devices);
        text(device, "name", from->name);
        number(device, "busy_s", from->activity.any_s);
        number(device, "kernel_s", from->activity.kernel_s);
        number(device, "up_s", from->activity.h2d_s);
        number(device, "down_s", from->activity.d2h_s);
        number(device, "up_bytes", from->activity.h2d_bytes);
        number(device, "down_bytes", from->activity.d2h_bytes);
        number(device, "used", from->memory.used);
        number(device, "held", from->memory.held);
        number(device, "limit", from->memory.budget);
    }
}

/* The latest first. */
static void add_errors(cJSON *root, const struct metrics_totals *totals)
{
    cJSON *counts = object_in(root, "error_counts");
    for (enum status status = STATUS_OK + 1; status < STATUS_COUNT; status++)
        if (totals->errors[status] > 0)
            number(counts, status_name(status), totals->errors[status]);
    cJSON *errors = cJSON_AddArrayToObject(root, "errors");
    for (uint64_t i = 0; i < METRICS_RECENT_MAX && i < totals->recent_count; i++) {
        const struct metrics_error *from =
            &totals->recent[(totals->recent_count - 1 - i) % METRICS_RECENT_MAX];
        cJSON *error = append_object(errors);
        number(error, "time", from->time_s);
        number(error, "job", from->job);
        number(error, "attempt", from->attempt);
        truth(error, "retried", from->retried);
        text(error, "input", from->input);
        cJSON *what = object_in(error, "error"); /* as in a result */
        text(what, "code", status_name(from->status));
        text(what, "message", from->text);
        truth(what, "retryable", status_retryable(from->status));
    }
}

char *status_json_write(const struct metrics *metrics, uint64_t now_ns)
{
    cJSON *root = cJSON_CreateObject();
    add_self(root, metrics, now_ns);
    add_redis(root, metrics);
    add_disk(root, metrics);
    add_jobs(root, metrics);
    add_times(root, metrics);
    add_machine(root, metrics);
    add_errors(root, &metrics->totals);
    char *json = root ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    return json;
}
