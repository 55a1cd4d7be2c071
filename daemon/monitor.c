#include "daemon/monitor.h"

#include <stdlib.h>
#include <time.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "conf/text.h"
#include "daemon/http/server.h"

/* A status page that moves looks each second. Less often would show it the same twice; more often
 * would cut more of the intervals that engine_take_activity joins. */
#define LOOK_MS 1000

struct monitor {
    struct web *web;
    struct monitor_parts parts;
    uv_timer_t timer;
    uint64_t due_ns; /* of the next look */
    struct metrics metrics;
};

static double unix_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- looking -------------------------------------------------------------------------------- */

static void look_at_jobs(struct metrics *metrics, const struct monitor_parts *parts)
{
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        metrics->in_stage[stage] = pipeline_in_stage(parts->pipeline, stage);
    metrics->in_flight = pipeline_inflight(parts->pipeline);
    metrics->waiting = pipeline_waiting(parts->pipeline);
    metrics->abandoned = pipeline_zombies(parts->pipeline);
    metrics->oldest_s = pipeline_oldest_s(parts->pipeline);
    metrics->moving = pipeline_healthy(parts->pipeline);
    const char *disk_error = pipeline_disk_error(parts->pipeline);
    metrics->disk_works = !disk_error;
    text_copy(metrics->disk_reason, sizeof metrics->disk_reason, disk_error ? disk_error : "");
}

static void look_at_queue(struct metrics *metrics, const struct monitor_parts *parts)
{
    const struct queue_view *view = queue_view(parts->queue);
    metrics->redis_ready = view->state == QUEUE_READY;
    text_copy(metrics->redis_reason, sizeof metrics->redis_reason, view->reason);
    text_copy(metrics->redis_version, sizeof metrics->redis_version, view->version);
    metrics->queue_length = view->length;
    metrics->results = view->results;
    metrics->results_max = parts->options->results_max;
    metrics->dead_listed = view->dead_listed;
    metrics->dead_max = parts->options->dead_max;
    metrics->delayed = view->delayed;
    metrics->unacknowledged = view->unacknowledged;
    metrics->redelivered = view->redelivered;
    metrics->stale = view->stale;
    metrics->dropped = view->dropped;
    metrics->trimmed = view->trimmed;
    metrics->reconnects = view->connects > 0 ? view->connects - 1 : 0;
}

static void look_at_engine(struct metrics *metrics, const struct monitor_parts *parts)
{
    metrics->pinned = engine_pinned_usage(parts->engine);
    metrics->files = pipeline_file_usage(parts->pipeline);
    metrics->codecs = pipeline_codec_usage(parts->pipeline);
    stats_take_activity(parts->stats, parts->engine);
    for (uint32_t d = 0; d < metrics->device_count; d++) {
        struct metrics_device *device = &metrics->devices[d];
        device->activity = *stats_activity(parts->stats, d);
        device->memory = engine_device_usage_of(parts->engine, d);
    }
}

static void look_at_threads(struct metrics *metrics, const struct monitor_parts *parts)
{
    struct timespec cpu = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    metrics->loop_cpu_s = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
    metrics->workers = workers_usage(parts->workers);
    metrics->workers_replaced = workers_given_up(parts->workers);
    metrics->canary = canary_counts(parts->canary);
}

static void look(struct monitor *monitor)
{
    struct metrics *metrics = &monitor->metrics;
    look_at_jobs(metrics, &monitor->parts);
    look_at_queue(metrics, &monitor->parts);
    look_at_engine(metrics, &monitor->parts);
    look_at_threads(metrics, &monitor->parts);
    metrics->generation++;
    metrics->taken_ns = clock_now_ns();
    metrics->taken_s = unix_now_s();
    web_publish(monitor->web, metrics);
}

static void on_timer(uv_timer_t *timer)
{
    struct monitor *monitor = timer->data;
    uint64_t now = clock_now_ns();
    monitor->metrics.loop_lag_s = clock_ms(monitor->due_ns, now) / 1e3;
    monitor->due_ns = now + LOOK_MS * (uint64_t)NS_PER_MS;
    look(monitor);
}

/* ---- what happens --------------------------------------------------------------------------- */

void monitor_watch(struct monitor *monitor, const struct monitor_parts *parts)
{
    if (!monitor)
        return;
    struct metrics *metrics = &monitor->metrics;
    uint32_t devices = engine_devices(parts->engine);
    monitor->parts = *parts;
    metrics->device_count = devices ? devices : 1;
    for (uint32_t d = 0; d < metrics->device_count; d++)
        text_copy(metrics->devices[d].name, sizeof metrics->devices[d].name,
                  engine_name(parts->engine, d));
    text_copy(metrics->engine, sizeof metrics->engine, engine_name(parts->engine, 0));
    text_copy(metrics->engine_description, sizeof metrics->engine_description,
              engine_description(parts->engine));
    metrics->in_flight_max = (uint32_t)parts->options->inflight;
    metrics->state = METRICS_RUNNING;
    stats_count_into(parts->stats, &metrics->totals);
    monitor->due_ns = clock_now_ns() + LOOK_MS * (uint64_t)NS_PER_MS;
    uv_timer_start(&monitor->timer, on_timer, LOOK_MS, LOOK_MS);
    look(monitor);
}

void monitor_set_state(struct monitor *monitor, enum metrics_state state, const char *why)
{
    if (!monitor || monitor->metrics.state == state)
        return;
    monitor->metrics.state = state;
    if (why)
        text_copy(monitor->metrics.why, sizeof monitor->metrics.why, why);
    look(monitor);
}

void monitor_swept(struct monitor *monitor, size_t removed)
{
    if (!monitor)
        return;
    monitor->metrics.sweeps++;
    monitor->metrics.swept_files += removed;
}

/* ---- life ----------------------------------------------------------------------------------- */

bool monitor_open(struct monitor **monitor, uv_loop_t *loop, const struct options *options,
                  const char *daemon, struct error *error)
{
    *monitor = NULL;
    if (!*options->metrics_listen)
        return true;
    struct monitor *made = calloc(1, sizeof *made);
    if (!made) {
        error_set(error, STATUS_INTERNAL, "no memory for metrics");
        return false;
    }
    struct metrics *metrics = &made->metrics;
    metrics->generation = 1;
    metrics->moving = metrics->disk_works = true;
    metrics->taken_ns = clock_now_ns();
    metrics->taken_s = metrics->began_s = unix_now_s();
    text_copy(metrics->daemon, sizeof metrics->daemon, daemon);
    text_copy(metrics->namespace, sizeof metrics->namespace, options->namespace);
    metrics->results_max = options->results_max;
    metrics->dead_max = options->dead_max;
    made->web = web_create(options->metrics_listen, metrics, error);
    if (!made->web) {
        free(made);
        return false;
    }
    log_info("metrics and status on %s", web_name(made->web));
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    *monitor = made;
    return true;
}

void monitor_close(struct monitor *monitor)
{
    if (!monitor)
        return;
    web_destroy(monitor->web);
    free(monitor);
}
