#include "daemon/monitor.h"

#include <inttypes.h>
#include <stdlib.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "conf/text.h"
#include "daemon/http/fleet_reader.h"
#include "daemon/http/http_server.h"
#include "daemon/notify.h"
#include "daemon/telemetry/stats_line.h"
#include "daemon/telemetry/status_json.h"

/* The interval of snapshots. engine_take_activity merges the overlapping copies and kernels of a
 * device since its last call; with shorter intervals it would cut more of them in two. */
#define LOOK_MS 1000
/* The first snapshot is taken this soon after the start, so that the status is soon complete, but
 * not before a Redis on this host has answered for the first time. */
#define LOOK_FIRST_MS 50

/* Rates are those of the last RATE_S to twice as many seconds. */
#define RATE_S 10

struct monitor {
    const struct options *options;
    struct engine *engine; /* this and the next four members: borrowed */
    struct workers *workers;
    const struct gpu_check *gpu_check; /* or NULL */
    struct pipeline *pipeline;
    struct group *group;
    struct http_server *http; /* NULL: metrics_listen is empty */
    struct fleet_reader *fleet; /* NULL: no http, or no memory */
    struct heartbeat { /* the last one; all zero: none yet */
        uint64_t at_ns, jobs; /* CLOCK_MONOTONIC; ended jobs */
        const char *state;
        bool had_news; /* it had new values, so send one more, also if nothing changes */
    } heartbeat;
    struct sample { /* for the rates: the last two, RATE_S or more apart */
        uint64_t at_ns, jobs, pixels;
    } before, later;
    struct stats stats;
    enum snapshot_state state; /* without a pause of all daemons, which is in struct queue_view */
    uv_timer_t look_timer, stats_timer;
    uint64_t due_ns; /* when look_timer is due next, CLOCK_MONOTONIC */
    struct snapshot snapshot;
};

static void look_at_queue(struct snapshot *snapshot, const struct queue_view *view)
{
    snapshot->redis_ready = view->state == QUEUE_READY;
    text_copy(snapshot->redis_reason, sizeof snapshot->redis_reason, view->reason);
    text_copy(snapshot->redis_version, sizeof snapshot->redis_version, view->version);
    snapshot->queue_length = snapshot->queue_lengths[JOB_PRIORITIES] = view->length;
    snapshot->queue_oldest_s = view->oldest_s;
    for (size_t i = 0; i < JOB_PRIORITIES; i++) {
        snapshot->queue_lengths[i] = view->lengths[i];
        snapshot->queue_lengths[JOB_PRIORITIES] -= view->lengths[i];
    }
    snapshot->results = view->results;
    snapshot->dead_listed = view->dead_listed;
    snapshot->delayed = view->delayed;
    snapshot->unacknowledged = view->unacknowledged;
    snapshot->redelivered = view->redelivered;
    snapshot->stale = view->stale;
    snapshot->dropped = view->dropped;
    snapshot->trimmed = view->trimmed;
    snapshot->reconnects = view->connects > 0 ? view->connects - 1 : 0;
}

static void look_at_shards(struct snapshot *snapshot, struct group *group)
{
    snapshot->shard_count = group_shard_count(group);
    for (uint32_t i = 0; snapshot->shard_count > 1 && i < snapshot->shard_count; i++) {
        struct snapshot_shard *shard = &snapshot->shards[i];
        struct shard_view now = group_shard_view(group, i);
        snprintf(shard->number, sizeof shard->number, "%u", i % SHARDS_MAX);
        shard->up = now.ready;
        shard->paused = now.paused;
        text_copy(shard->reason, sizeof shard->reason, now.reason);
        shard->length = now.length;
        shard->delayed = now.delayed;
        shard->dead_listed = now.dead_listed;
        shard->results = now.results;
        shard->leases = now.running;
        shard->unacknowledged = now.unacknowledged;
    }
}

static void look_at_threads(struct snapshot *snapshot, const struct monitor *monitor)
{
    struct workers_usage workers = workers_usage(monitor->workers);
    struct gpu_check_counts gpu_check = gpu_check_counts(monitor->gpu_check);
    snapshot->workers = workers.threads;
    snapshot->workers_busy = workers.busy;
    snapshot->workers_busy_s = workers.busy_s;
    snapshot->workers_replaced = workers_given_up(monitor->workers);
    for (int why = 0; why < CODEC_REPLACE_REASONS; why++)
        snapshot->codecs_replaced[why] = codec_process_replaced(why);
    snapshot->gpu_check_runs = gpu_check.runs;
    snapshot->gpu_check_failures = gpu_check.failures;
    snapshot->loop_cpu_s = (double)clock_thread_cpu_ns() / 1e9;
}

static void compute_rates(struct monitor *monitor)
{
    struct snapshot *snapshot = &monitor->snapshot;
    struct sample now = {snapshot->taken_ns, metrics_jobs(&snapshot->totals),
                         snapshot->totals.pixels};
    if (monitor->before.at_ns == 0)
        monitor->before = monitor->later = now;
    const struct sample *before = &monitor->before;
    double seconds = clock_ms(before->at_ns, now.at_ns) / 1e3;
    snapshot->jobs_s = seconds > 0 ? (double)(now.jobs - before->jobs) / seconds : 0;
    snapshot->pixels_s = seconds > 0 ? (double)(now.pixels - before->pixels) / seconds : 0;
    if (clock_ms(monitor->later.at_ns, now.at_ns) >= RATE_S * 1e3) {
        monitor->before = monitor->later;
        monitor->later = now;
    }
}

/* Fills in the whole snapshot, from all parts of the daemon. */
static void take_snapshot(struct monitor *monitor)
{
    struct snapshot *snapshot = &monitor->snapshot;
    const struct queue_view *view = group_view(monitor->group);
    snapshot->generation++;
    snapshot->taken_ns = clock_now_ns();
    snapshot->taken_s = clock_unix_s();
    snapshot->state = monitor->state == SNAPSHOT_RUNNING && view->paused ? SNAPSHOT_PAUSED
                                                                         : monitor->state;
    snapshot->results_max = monitor->options->results_max * group_shard_count(monitor->group);
    snapshot->dead_max = monitor->options->dead_max * group_shard_count(monitor->group);
    snapshot->images_per_s = monitor->stats.images_per_s;
    snapshot->lease_s = monitor->options->lease_s;
    pipeline_look(monitor->pipeline, snapshot);
    look_at_queue(snapshot, view);
    look_at_shards(snapshot, monitor->group);
    for (uint32_t d = 0; d < snapshot->device_count; d++) {
        engine_take_activity(monitor->engine, d, &snapshot->devices[d].activity);
        snapshot->devices[d].memory = engine_device_usage(monitor->engine, d);
        snapshot->devices[d].in_service =
            engine_device_state(monitor->engine, d) == DEVICE_IN_SERVICE;
    }
    look_at_threads(snapshot, monitor);
    snapshot->pools[SNAPSHOT_PINNED] = engine_pinned_usage(monitor->engine);
    snapshot_read_process(snapshot);
    blocked_find(snapshot, monitor->state == SNAPSHOT_PAUSED);
    compute_rates(monitor);
}

/* A job waits a moment for memory in many daemons that are well. */
#define BLOCKED_LEAST_S 5

static void show_status(const struct snapshot *s)
{
    const char *state = snapshot_state_names[s->state];
    bool blocked = s->blocked.by != BLOCKED_BY_INFLIGHT && s->blocked.for_s >= BLOCKED_LEAST_S;
    if (s->state == SNAPSHOT_FAILED)
        notify_status("failed: %s; draining, then the daemon must be restarted", s->why);
    else if (!s->disk_works)
        notify_status("%s on %s; %s", state, s->engine, s->disk_reason);
    else if (!s->redis_ready)
        notify_status("%s on %s; Redis: %s", state, s->engine, s->redis_reason);
    else
        notify_status("%s on %s; connected; %.1f images/s, %u in flight, %" PRIu64
                      " queued, %" PRIu64 " jobs since start%s%s%s%s",
                      state, s->engine, s->images_per_s, s->in_flight, s->queue_length,
                      metrics_jobs(&s->totals), *s->redis_reason ? "; " : "", s->redis_reason,
                      blocked ? "; " : "", blocked ? s->blocked.why : "");
}

void monitor_write_stats(struct monitor *monitor, bool even_idle)
{
    char line[1536];
    take_snapshot(monitor);
    if (!stats_line(&monitor->stats, &monitor->snapshot, line, sizeof line) && !even_idle)
        return;
    log_text(LOG_LEVEL_INFO, line);
    stats_write_log(&monitor->stats, line);
}

void monitor_look(struct monitor *monitor)
{
    take_snapshot(monitor);
    show_status(&monitor->snapshot);
    if (monitor->http)
        http_server_publish(monitor->http, &monitor->snapshot);
}

static const char *heartbeat_state(const struct snapshot *snapshot)
{
    switch (snapshot->state) {
    case SNAPSHOT_FAILED: /* the daemon drains, too: it gives its jobs back and exits */
    case SNAPSHOT_DRAINING:
        return "draining";
    case SNAPSHOT_PAUSED:
        return "paused";
    default:
        return snapshot->disk_works ? "running" : "blocked";
    }
}

/* Publishes the heartbeat (queue/PROTOCOL.md) if the daemon is busy or a value has changed. An idle
 * daemon publishes it only as often as it renews leases. If memory is short, the next call tries
 * again. */
static void publish_heartbeat(struct monitor *monitor)
{
    const struct snapshot *snapshot = &monitor->snapshot;
    const char *state = heartbeat_state(snapshot);
    uint64_t jobs = metrics_jobs(&snapshot->totals);
    if (!snapshot->redis_ready)
        return;
    bool has_news = jobs != monitor->heartbeat.jobs || state != monitor->heartbeat.state ||
                    snapshot->in_flight > 0;
    if (!has_news && !monitor->heartbeat.had_news &&
        clock_ms(monitor->heartbeat.at_ns, snapshot->taken_ns) < monitor->options->renew_s * 1e3)
        return;
    char *text = status_json_heartbeat(snapshot, state);
    if (!text)
        return;
    group_publish(monitor->group, text, monitor->options->lease_s);
    free(text);
    monitor->heartbeat = (struct heartbeat){snapshot->taken_ns, jobs, state, has_news};
}

static void on_look(uv_timer_t *timer)
{
    struct monitor *monitor = timer->data;
    uint64_t now = clock_now_ns();
    monitor->snapshot.loop_lag_s = clock_ms(monitor->due_ns, now) / 1e3;
    monitor->due_ns = now + LOOK_MS * (uint64_t)NS_PER_MS;
    monitor_look(monitor);
    publish_heartbeat(monitor);
}

static void on_stats(uv_timer_t *timer)
{
    monitor_write_stats(timer->data, false);
}

void monitor_set_state(struct monitor *monitor, enum snapshot_state state, const char *why)
{
    monitor->state = state;
    if (why) /* uncovered: refusal (tests/coverage/reasons.txt) */
        text_copy(monitor->snapshot.why, sizeof monitor->snapshot.why, why);
    monitor_look(monitor);
}

void monitor_swept(struct monitor *monitor, size_t removed)
{
    monitor->snapshot.sweeps++;
    monitor->snapshot.swept_files += removed;
}

struct metrics_totals *monitor_totals(struct monitor *monitor)
{
    return &monitor->snapshot.totals;
}

struct tags *monitor_tags(struct monitor *monitor)
{
    return &monitor->snapshot.tags;
}

void monitor_reload(struct monitor *monitor)
{
    uint64_t interval_ms = (uint64_t)(monitor->options->stats_interval_s * 1e3);
    uv_timer_stop(&monitor->stats_timer);
    if (interval_ms > 0)
        uv_timer_start(&monitor->stats_timer, on_stats, interval_ms, interval_ms);
    stats_open_log(&monitor->stats, monitor->options->stats_log);
}

struct monitor *monitor_open(uv_loop_t *loop, const struct options *options, const char *daemon,
                             struct error *error)
{
    struct monitor *monitor = calloc(1, sizeof *monitor);
    if (!monitor) { /* uncovered: memory */
        error_set(error, STATUS_INTERNAL, "no memory for metrics");
        return NULL;
    }
    struct snapshot *snapshot = &monitor->snapshot;
    monitor->options = options;
    snapshot->generation = 1;
    snapshot->moving = snapshot->disk_works = true;
    snapshot->taken_ns = snapshot->began_ns = clock_now_ns();
    snapshot->taken_s = snapshot->began_s = clock_unix_s();
    snapshot->results_max = options->results_max * options->shards;
    snapshot->dead_max = options->dead_max * options->shards;
    text_copy(snapshot->daemon, sizeof snapshot->daemon, daemon);
    text_copy(snapshot->namespace, sizeof snapshot->namespace, options->namespace);
    snapshot_read_process(snapshot);
    stats_begin(&monitor->stats, snapshot);
    if (*options->metrics_listen) {
        monitor->http = http_server_create(options->metrics_listen, snapshot, error);
        if (!monitor->http) {
            free(monitor);
            return NULL;
        }
        log_info("metrics and status on %s", http_server_name(monitor->http));
    }
    uv_timer_init(loop, &monitor->look_timer);
    uv_timer_init(loop, &monitor->stats_timer);
    monitor->look_timer.data = monitor->stats_timer.data = monitor;
    return monitor;
}

void monitor_start(struct monitor *monitor, struct engine *engine, struct workers *workers,
                   const struct gpu_check *gpu_check, struct pipeline *pipeline,
                   struct group *group)
{
    struct snapshot *snapshot = &monitor->snapshot;
    uint32_t devices = engine_devices(engine);
    monitor->engine = engine;
    monitor->workers = workers;
    monitor->gpu_check = gpu_check;
    monitor->pipeline = pipeline;
    monitor->group = group;
    snapshot->device_count = devices ? devices : 1;
    for (uint32_t d = 0; d < snapshot->device_count; d++)
        text_copy(snapshot->devices[d].name, sizeof snapshot->devices[d].name,
                  engine_name(engine, d));
    text_copy(snapshot->engine, sizeof snapshot->engine, engine_name(engine, 0));
    text_copy(snapshot->engine_description, sizeof snapshot->engine_description,
              engine_description(engine));
    snapshot->in_flight_max = (uint32_t)monitor->options->inflight;
    snapshot->workers_max = (uint32_t)monitor->options->workers;
    snapshot->streams = engine_slots(engine);
    monitor->state = SNAPSHOT_RUNNING;
    take_snapshot(monitor);
    if (monitor->http) {
        http_server_publish(monitor->http, &monitor->snapshot);
        monitor->fleet = fleet_reader_create(monitor->look_timer.loop, group);
        http_server_serve_fleet(monitor->http, monitor->fleet);
    }
    stats_begin(&monitor->stats, snapshot);
    monitor_reload(monitor);
    monitor->due_ns = clock_now_ns() + LOOK_FIRST_MS * (uint64_t)NS_PER_MS;
    uv_timer_start(&monitor->look_timer, on_look, LOOK_FIRST_MS, LOOK_MS);
}

void monitor_stop_fleet(struct monitor *monitor)
{
    if (monitor && monitor->fleet)
        fleet_reader_stop(monitor->fleet);
}

void monitor_stop_http(struct monitor *monitor)
{
    monitor_stop_fleet(monitor);
    http_server_destroy(monitor->http);
    monitor->http = NULL;
}

void monitor_close(struct monitor *monitor)
{
    if (!monitor)
        return;
    stats_end(&monitor->stats);
    monitor_stop_http(monitor);
    fleet_reader_destroy(monitor->fleet);
    free(monitor);
}
