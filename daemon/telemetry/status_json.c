#include "daemon/telemetry/status_json.h"

#include "conf/clock.h"
#include "queue/job/writer.h"

static void put_seconds(struct writer *writer, const char *key, double seconds)
{
    writer_decimal(writer, key, seconds, 6);
}

/* Begins the object of a device with the members that the page and the heartbeat share. */
static void open_device(struct writer *w, const struct snapshot_device *device)
{
    writer_open(w, NULL, '{');
    writer_text(w, "name", device->name);
    put_seconds(w, "busy_s", device->activity.any_s);
    put_seconds(w, "up_s", device->activity.h2d_s);
    put_seconds(w, "kernel_s", device->activity.kernel_s);
    put_seconds(w, "down_s", device->activity.d2h_s);
}

static void add_codec(struct writer *w, const char *name, const struct metrics_codec *codec)
{
    writer_open(w, name, '{');
    for (size_t i = 0; i < METRICS_PLACES; i++) {
        writer_open(w, metrics_place_names[i], '{');
        writer_number(w, "images", codec->images[i]);
        writer_number(w, "pixels", codec->pixels[i]);
        writer_close(w, '}');
    }
    writer_close(w, '}');
}

/* For the page and for the heartbeat. */
static void add_codecs(struct writer *w, const struct metrics_totals *totals)
{
    add_codec(w, "decoded", &totals->decoder);
    add_codec(w, "encoded", &totals->encoder);
    writer_number(w, "declined", totals->declined);
}

/* For the page and for the heartbeat. Nothing if the daemon is not blocked. */
static void add_blocked(struct writer *w, const struct snapshot *s)
{
    const struct blocked *blocked = &s->blocked;
    if (blocked->by == BLOCKED_BY_NOTHING)
        return;
    writer_open(w, "blocked", '{');
    writer_text(w, "by", blocked_names[blocked->by]);
    writer_decimal(w, "for_s", blocked->for_s, 1);
    if (blocked->limit > 0) {
        if (blocked->wanted > 0)
            writer_number(w, "wanted", blocked->wanted);
        writer_number(w, "free", blocked->free);
        writer_number(w, "limit", blocked->limit);
    }
    writer_text(w, "why", blocked->why);
    writer_text(w, "advice", blocked_advices[blocked->by]);
    writer_close(w, '}');
}

/* ---- the status page ------------------------------------------------------------------------ */

static void add_self(struct writer *w, const struct snapshot *s, uint64_t now_ns)
{
    char why[ERROR_TEXT_MAX + 64];
    writer_text(w, "version", GPUIMGD_VERSION);
    writer_text(w, "daemon", s->daemon);
    writer_text(w, "engine", s->engine);
    writer_text(w, "description", s->engine_description);
    writer_text(w, "state", snapshot_state_names[s->state]);
    writer_bool(w, "healthy", snapshot_alive(s, now_ns, why, sizeof why));
    writer_bool(w, "ready", snapshot_ready(s, now_ns, why, sizeof why));
    writer_text(w, "verdict", why);
    add_blocked(w, s);
    put_seconds(w, "began", s->began_s);
    writer_decimal(w, "resident_bytes", s->resident_bytes, 0);
}

static void add_shards(struct writer *w, const struct snapshot *s)
{
    writer_open(w, "shards", '[');
    for (uint32_t i = 0; i < s->shard_count; i++) {
        const struct snapshot_shard *shard = &s->shards[i];
        writer_open(w, NULL, '{');
        writer_number(w, "shard", i);
        writer_bool(w, "up", shard->up);
        writer_bool(w, "paused", shard->paused);
        writer_text(w, "reason", shard->reason);
        writer_number(w, "queue", shard->length);
        writer_number(w, "delayed", shard->delayed);
        writer_number(w, "dead", shard->dead_listed);
        writer_number(w, "results", shard->results);
        writer_number(w, "leases", shard->leases);
        writer_number(w, "unacknowledged", shard->unacknowledged);
        writer_close(w, '}');
    }
    writer_close(w, ']');
}

static void add_redis(struct writer *w, const struct snapshot *s)
{
    writer_open(w, "redis", '{');
    writer_bool(w, "up", s->redis_ready);
    writer_text(w, "reason", s->redis_reason);
    writer_text(w, "version", s->redis_version);
    writer_number(w, "reconnects", s->reconnects);
    writer_number(w, "queue", s->queue_length);
    put_seconds(w, "queue_oldest_s", s->queue_oldest_s);
    writer_number(w, "unacknowledged", s->unacknowledged);
    writer_number(w, "redelivered", s->redelivered);
    if (s->shard_count > 1)
        add_shards(w, s);
    writer_close(w, '}');
    writer_open(w, "output_root", '{');
    writer_bool(w, "up", s->disk_works);
    writer_text(w, "reason", s->disk_reason);
    writer_close(w, '}');
}

/* The jobs with many images that run. */
static void add_sets(struct writer *w, const struct snapshot *s)
{
    if (s->set_count == 0)
        return;
    writer_open(w, "sets", '[');
    for (uint32_t i = 0; i < s->set_count; i++) {
        const struct snapshot_set *set = &s->sets[i];
        writer_open(w, NULL, '{');
        writer_number(w, "job", set->number);
        if (s->shard_count > 1)
            writer_number(w, "shard", set->shard);
        writer_text(w, "id", *set->id ? set->id : NULL);
        writer_number(w, "images", set->images);
        writer_number(w, "failed", set->failed);
        writer_decimal(w, "fraction", set->fraction, 4);
        writer_close(w, '}');
    }
    writer_close(w, ']');
}

static void add_jobs(struct writer *w, const struct snapshot *s)
{
    const struct metrics_totals *totals = &s->totals;
    writer_open(w, "jobs", '{');
    writer_number(w, "attempts", totals->attempts);
    for (size_t i = 0; i < METRICS_OUTCOMES; i++)
        writer_number(w, metrics_outcome_names[i], totals->jobs[i]);
    writer_number(w, "retried", totals->retried);
    writer_number(w, "returned", totals->returned);
    writer_number(w, "images", totals->images);
    writer_number(w, "pixels", totals->pixels);
    writer_number(w, "input_bytes", totals->input_bytes);
    writer_number(w, "output_bytes", totals->output_bytes);
    add_codecs(w, totals);
    writer_number(w, "in_flight", s->in_flight);
    writer_number(w, "in_flight_limit", s->in_flight_max);
    put_seconds(w, "oldest_s", s->oldest_s);
    writer_open(w, "stages", '{');
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        writer_number(w, stage_name(stage), s->in_stage[stage]);
    writer_close(w, '}');
    writer_close(w, '}');
}

static void add_histogram(struct writer *w, const char *name,
                          const struct metrics_histogram *histogram)
{
    writer_open(w, name, '{');
    writer_open(w, "counts", '[');
    for (size_t i = 0; i <= METRICS_BUCKETS; i++)
        writer_number(w, NULL, histogram->counts[i]);
    writer_close(w, ']');
    writer_number(w, "count", metrics_histogram_count(histogram));
    put_seconds(w, "sum_s", histogram->sum_s);
    writer_close(w, '}');
}

static void add_times(struct writer *w, const struct metrics_totals *totals)
{
    writer_open(w, "times", '{');
    for (size_t i = 0; i < METRICS_TIMES; i++)
        add_histogram(w, metrics_time_names[i], &totals->times[i]);
    add_histogram(w, "job", &totals->job);
    writer_close(w, '}');
}

static void add_usage(struct writer *w, const struct pool_usage *usage)
{
    writer_number(w, "used", usage->used);
    writer_number(w, "held", usage->held);
    writer_number(w, "limit", usage->budget);
}

static void add_threads(struct writer *w, const struct snapshot *s)
{
    writer_open(w, "workers", '{');
    writer_number(w, "threads", s->workers);
    writer_number(w, "busy", s->workers_busy);
    put_seconds(w, "busy_s", s->workers_busy_s);
    writer_number(w, "replaced", s->workers_replaced);
    writer_close(w, '}');
    writer_open(w, "loop", '{');
    put_seconds(w, "cpu_s", s->loop_cpu_s);
    put_seconds(w, "lag_s", s->loop_lag_s);
    writer_close(w, '}');
    writer_open(w, "canary", '{');
    writer_number(w, "runs", s->gpu_check_runs);
    writer_number(w, "failures", s->gpu_check_failures);
    writer_close(w, '}');
}

static void add_memory(struct writer *w, const struct snapshot *s)
{
    writer_open(w, "pools", '[');
    for (size_t i = 0; i < SNAPSHOT_POOLS; i++) {
        writer_open(w, NULL, '{');
        writer_text(w, "name", snapshot_pool_names[i]);
        add_usage(w, &s->pools[i]);
        writer_close(w, '}');
    }
    writer_close(w, ']');
    writer_open(w, "devices", '[');
    for (uint32_t d = 0; d < s->device_count; d++) {
        open_device(w, &s->devices[d]);
        writer_number(w, "up_bytes", s->devices[d].activity.h2d_bytes);
        writer_number(w, "down_bytes", s->devices[d].activity.d2h_bytes);
        add_usage(w, &s->devices[d].memory);
        writer_close(w, '}');
    }
    writer_close(w, ']');
}

static void add_error(struct writer *w, const struct metrics_error *error)
{
    writer_open(w, NULL, '{');
    put_seconds(w, "time", error->time_s);
    writer_number(w, "job", error->job);
    if (error->shards > 1)
        writer_number(w, "shard", error->shard);
    writer_number(w, "attempt", error->attempt);
    writer_bool(w, "retried", error->retried);
    writer_text(w, "input", error->input);
    writer_open(w, "error", '{'); /* the same members as in a result */
    writer_text(w, "code", status_name(error->status));
    writer_text(w, "message", error->text);
    writer_bool(w, "retryable", status_retryable(error->status));
    writer_close(w, '}');
    writer_close(w, '}');
}

/* Newest first. */
static void add_errors(struct writer *w, const struct metrics_totals *totals)
{
    writer_open(w, "error_counts", '{');
    for (enum status status = STATUS_OK + 1; status < STATUS_COUNT; status++)
        if (totals->errors[status] > 0)
            writer_number(w, status_name(status), totals->errors[status]);
    writer_close(w, '}');
    writer_open(w, "errors", '[');
    for (uint64_t i = 0; i < METRICS_RECENT_MAX && i < totals->recent_count; i++)
        add_error(w, &totals->recent[(totals->recent_count - 1 - i) % METRICS_RECENT_MAX]);
    writer_close(w, ']');
}

static void add_tags(struct writer *w, const struct tags *tags)
{
    writer_open(w, "tags", '[');
    for (uint32_t i = 0; i < tags->count; i++) {
        const struct tag *tag = &tags->list[i];
        writer_open(w, NULL, '{');
        writer_text(w, "tag", tag->name);
        for (size_t k = 0; k < METRICS_OUTCOMES; k++)
            writer_number(w, metrics_outcome_names[k], tag->jobs[k]);
        writer_number(w, "pixels", tag->pixels);
        put_seconds(w, "work_s", tag->work_s);
        put_seconds(w, "job_s", tag->job_s);
        writer_close(w, '}');
    }
    writer_close(w, ']');
}

/* What both /status.json and the samples of /history.json have: the sources of the charts. */
static void add_sample(struct writer *w, const struct snapshot *s)
{
    writer_number(w, "generation", s->generation);
    put_seconds(w, "time", s->taken_s);
    add_jobs(w, s);
    add_times(w, &s->totals);
    add_threads(w, s);
    add_memory(w, s);
}

char *status_json_write(const struct snapshot *snapshot, uint64_t now_ns)
{
    struct writer writer = {0};
    writer_open(&writer, NULL, '{');
    add_self(&writer, snapshot, now_ns);
    add_redis(&writer, snapshot);
    add_sample(&writer, snapshot);
    writer_open(&writer, "bucket_s", '[');
    for (size_t i = 0; i < METRICS_BUCKETS; i++)
        put_seconds(&writer, NULL, metrics_bucket_s[i]);
    writer_close(&writer, ']');
    add_errors(&writer, &snapshot->totals);
    add_tags(&writer, &snapshot->tags);
    writer_close(&writer, '}');
    return writer_finish(&writer);
}

void history_add(struct history *history, const struct snapshot *snapshot)
{
    const struct snapshot *last = &history->samples[(history->count - 1) % HISTORY_SAMPLES];
    if (history->count > 1 && snapshot->taken_ns - last->taken_ns < NS_PER_S / 2)
        history->count--;
    snapshot_copy(&history->samples[history->count++ % HISTORY_SAMPLES], snapshot);
}

char *history_json_write(const struct history *history)
{
    struct writer w = {0};
    uint64_t first = history->count > HISTORY_SAMPLES ? history->count - HISTORY_SAMPLES : 0;
    writer_open(&w, NULL, '{');
    writer_open(&w, "samples", '[');
    for (uint64_t i = first; i < history->count; i++) {
        writer_open(&w, NULL, '{');
        add_sample(&w, &history->samples[i % HISTORY_SAMPLES]);
        writer_close(&w, '}');
    }
    writer_close(&w, ']');
    writer_close(&w, '}');
    return writer_finish(&w);
}

/* ---- the heartbeat -------------------------------------------------------------------------- */

static void add_stage(struct writer *w, const struct snapshot *s, enum stage stage)
{
    uint64_t jobs;
    double ms;
    writer_open(w, stage_name(stage), '{');
    writer_number(w, "now", s->in_stage[stage]);
    if (metrics_stage(&s->totals, stage, &jobs, &ms)) {
        writer_number(w, "jobs", jobs);
        writer_thousandths(w, "ms", ms);
    }
    writer_close(w, '}');
}

static void add_work(struct writer *w, const struct metrics_totals *totals)
{
    writer_number(w, "jobs", metrics_jobs(totals));
    writer_number(w, "done", totals->jobs[METRICS_DONE]);
    writer_number(w, "failed", totals->jobs[METRICS_FAILED] + totals->jobs[METRICS_CANCELLED]);
    writer_number(w, "dead", totals->jobs[METRICS_DEAD]);
    writer_number(w, "retried", totals->retried);
    writer_number(w, "images", totals->images);
    writer_number(w, "pixels", totals->pixels);
    writer_number(w, "bytes_in", totals->input_bytes);
    writer_number(w, "bytes_out", totals->output_bytes);
    add_codecs(w, totals);
}

/* On the CPU engine the list is empty: the stage "gpu" already has its times. */
static void add_devices(struct writer *w, const struct snapshot *s)
{
    writer_open(w, "devices", '[');
    for (uint32_t d = 0; d < s->device_count && s->streams > 0; d++) {
        open_device(w, &s->devices[d]);
        writer_close(w, '}');
    }
    writer_close(w, ']');
}

char *status_json_heartbeat(const struct snapshot *s, const char *state)
{
    struct writer writer = {0}, *w = &writer;
    uint32_t busy = s->in_stage[STAGE_GPU];
    writer_open(w, NULL, '{');
    writer_text(w, "version", GPUIMGD_VERSION);
    writer_thousandths(w, "up_s", clock_ms(s->began_ns, s->taken_ns) / 1e3);
    writer_decimal(w, "lease_s", s->lease_s, 3);
    writer_text(w, "state", state);
    add_blocked(w, s);
    if (s->shard_count > 1)
        writer_number(w, "shards", s->shard_count);
    writer_text(w, "engine", s->engine);
    writer_number(w, "workers", s->workers_max);
    writer_number(w, "streams", s->streams);
    writer_number(w, "streams_busy", busy < s->streams ? busy : s->streams);
    writer_number(w, "in_flight", s->in_flight);
    writer_decimal(w, "oldest_s", s->oldest_s, 1);
    writer_decimal(w, "jobs_s", s->jobs_s, 3);
    writer_decimal(w, "pixels_s", s->pixels_s, 0);
    writer_number(w, "queue", s->queue_length);
    writer_decimal(w, "queue_oldest_s", s->queue_oldest_s, 1);
    add_work(w, &s->totals);
    writer_open(w, "stages", '{');
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        add_stage(w, s, stage);
    writer_close(w, '}');
    add_devices(w, s);
    add_sets(w, s);
    writer_close(w, '}');
    return writer_finish(w);
}
