#include "daemon/daemon.h"

#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "codecs/codec.h"
#include "conf/clock.h"
#include "conf/limits.h"
#include "conf/log.h"
#include "conf/text.h"
#include "daemon/device_codecs.h"
#include "daemon/files/files.h"
#include "daemon/machine.h"
#include "daemon/monitor.h"
#include "daemon/notify.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/program_pages.h"
#include "daemon/selfcheck/gpu_check.h"
#include "daemon/selfcheck/codec_check.h"
#include "daemon/selfcheck/selftest.h"
#include "daemon/telemetry/trace.h"
#include "daemon/web/fetcher.h"
#include "daemon/workers/workers.h"
#include "gpu/engine/engine.h"
#include "queue/job/instance.h"
#include "queue/lease/group.h"
#include "queue/redis/shard.h"

/* How often the daemon checks the engine for faults, and returns unused memory when idle. */
#define CHECK_MS 2000

static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
#define SIGNALS (sizeof signals / sizeof signals[0])

struct daemon {
    uv_loop_t loop;
    struct options *options;
    daemon_load *load;
    void *load_context;
    char instance[INSTANCE_BYTES_MAX], name[INSTANCE_BYTES_MAX];

    struct files files;
    struct engine *engine;
    struct test_image *test_image;
    struct workers *workers;
    uint32_t workers_pausing;    /* at most: workers_leave_cpus */
    struct gpu_check *gpu_check; /* NULL on the CPU engine */
    struct trace *trace;         /* NULL: options trace and timeline are "" */
    struct fetcher *fetcher;
    struct pipeline *pipeline;
    struct group *group; /* the queues of all shards */
    struct monitor *monitor;
    uint64_t descriptors; /* file descriptors that this process may open */
    struct options_host host; /* memory, CPUs and devices, which the value "auto" follows */
    uint64_t jobs_seen;    /* jobs that had ended at the last check of trim_if_idle */
    uint64_t jobs_trimmed; /* jobs that had ended when it last called malloc_trim */

    uv_async_t engine_async; /* a thread of the engine reports a fault */
    uv_signal_t signals[SIGNALS];
    uv_timer_t check_timer, watchdog_timer, drain_timer, sweep_timer;
    struct worker_task sweep; /* removes temporary files of dead daemons */
    bool sweeping;
    size_t swept;  /* files that the last sweep removed */
    bool has_root; /* result of files_has_root in the last sweep */
    bool running;  /* from the end of the start on */
    bool paused;   /* by SIGUSR2 */
    bool draining; /* fetches no more jobs and will exit */
    bool closing;  /* draining, and no job is in flight: Redis gets the last acknowledgements */
    bool hurried;  /* second SIGTERM or SIGINT: do not wait for jobs, and at most 1 s for Redis */
    uint64_t drain_began_ns;
    enum exit_status exit_status;
    const char *why_failed; /* reason for EXIT_FAULT; a literal, or owned by the engine */
};

/* ---- drain ---------------------------------------------------------------------------------- */

static void on_queue_closed(void *context)
{
    struct daemon *daemon = context;
    uv_stop(&daemon->loop);
}

/* Sends the last acknowledgements to Redis. They get the rest of drain_timeout_s, but at least
 * 1 s. */
static void close_queue(struct daemon *daemon)
{
    double spent_s = clock_ms(daemon->drain_began_ns, clock_now_ns()) / 1e3;
    double left_s = daemon->hurried ? 0 : daemon->options->drain_timeout_s - spent_s;
    group_close(daemon->group, left_s > 1 ? left_s : 1, on_queue_closed, daemon);
}

/* No job is in flight any more. */
static void on_idle(void *context)
{
    struct daemon *daemon = context;
    if (daemon->closing) /* uncovered: moment (tests/coverage/reasons.txt) */
        return;
    daemon->closing = true;
    close_queue(daemon);
}

static void on_drain_timeout(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    pipeline_give_back(daemon->pipeline);
}

static void begin_drain(struct daemon *daemon, const char *why)
{
    char text[PIPELINE_JOBS_BYTES];
    daemon->draining = true;
    daemon->drain_began_ns = clock_now_ns();
    log_info("%s: draining, %s in flight get %g s to finish", why,
             pipeline_jobs(daemon->pipeline, text), daemon->options->drain_timeout_s);
    notify_state("STOPPING=1");
    monitor_set_state(daemon->monitor, daemon->why_failed ? SNAPSHOT_FAILED : SNAPSHOT_DRAINING,
                      daemon->why_failed);
    gpu_check_set_interval(daemon->gpu_check, 0);
    pipeline_pause(daemon->pipeline, true);
    uv_timer_start(&daemon->drain_timer, on_drain_timeout,
                   (uint64_t)(daemon->options->drain_timeout_s * 1e3), 0);
    pipeline_when_idle(daemon->pipeline, on_idle, daemon);
}

static void on_terminate(struct daemon *daemon, const char *name)
{
    if (!daemon->draining) {
        begin_drain(daemon, name);
        return;
    }
    daemon->hurried = true;
    if (daemon->closing) /* uncovered: moment */
        close_queue(daemon);
    else
        pipeline_give_back(daemon->pipeline); /* then it calls on_idle */
}

/* The engine or the workers cannot recover. The daemon drains and exits; systemd restarts it. */
static void on_failed(void *context, const char *why)
{
    struct daemon *daemon = context;
    if (daemon->exit_status == EXIT_FAULT)
        return;
    daemon->exit_status = EXIT_FAULT;
    daemon->why_failed = why;
    log_error("%s: the daemon exits with status %d and must be restarted", why, EXIT_FAULT);
    pipeline_fail(daemon->pipeline);
    if (!daemon->draining)
        begin_drain(daemon, "fault");
    else
        monitor_set_state(daemon->monitor, SNAPSHOT_FAILED, why);
}

static void on_disk_changed(void *context)
{
    struct daemon *daemon = context;
    if (daemon->running)
        monitor_look(daemon->monitor);
}

static void check_engine(struct daemon *daemon)
{
    const struct error *fault = engine_fault(daemon->engine);
    if (fault)
        on_failed(daemon, fault->text);
}

/* ---- events --------------------------------------------------------------------------------- */

static void on_engine_failed(void *context)
{
    struct daemon *daemon = context;
    uv_async_send(&daemon->engine_async);
}

static void on_engine(uv_async_t *async)
{
    struct daemon *daemon = async->data;
    if (daemon->running)
        check_engine(daemon);
}

/* Returns malloc's free memory to the system when the daemon was idle for CHECK_MS; once, until the
 * next job ends. */
static void trim_if_idle(struct daemon *daemon)
{
    uint64_t jobs = metrics_jobs(monitor_totals(daemon->monitor));
    bool idle = pipeline_inflight(daemon->pipeline) == 0 && jobs == daemon->jobs_seen;
    daemon->jobs_seen = jobs;
    if (!idle || jobs == daemon->jobs_trimmed)
        return;
    daemon->jobs_trimmed = jobs;
    malloc_trim(0);
}

static void on_check(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    trim_if_idle(daemon);
    check_engine(daemon);
}

static void on_watchdog(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    if (pipeline_healthy(daemon->pipeline))
        notify_watchdog();
    else
        /* uncovered: net */
        log_error("jobs make no progress: one is past its deadline, or all of them wait; systemd's "
                  "watchdog gets no message");
}

/* The age at which a temporary file of another host's daemon is removed: ten times the lease. This
 * host cannot see whether that daemon still runs. */
static double leftover_age_s(const struct daemon *daemon)
{
    return 10 * daemon->options->lease_s;
}

/* Runs on a worker: a filesystem that hangs must not block the loop. */
static void sweep_run(struct worker_task *task, struct worker_tools *tools)
{
    struct daemon *daemon = container_of(task, struct daemon, sweep);
    (void)tools;
    daemon->swept = files_sweep(&daemon->files, leftover_age_s(daemon));
    daemon->has_root = files_has_root(&daemon->files, daemon->options->output_root);
}

static void sweep_done(struct worker_task *task)
{
    struct daemon *daemon = container_of(task, struct daemon, sweep);
    daemon->sweeping = false;
    if (!daemon->has_root && !daemon->draining)
        pipeline_suspect_disk(daemon->pipeline);
    monitor_swept(daemon->monitor, daemon->swept);
}

static void on_sweep(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    if (daemon->sweeping || daemon->draining)
        return;
    daemon->sweeping = true;
    daemon->sweep = (struct worker_task){.priority = 0, .run = sweep_run, .done = sweep_done};
    workers_submit(daemon->workers, &daemon->sweep);
}

static void start_gpu_check(struct daemon *daemon)
{
    gpu_check_set_interval(daemon->gpu_check,
                           daemon->draining ? 0 : daemon->options->canary_interval_s);
}

static uint64_t mib(uint64_t bytes)
{
    return (bytes + MIB - 1) / MIB;
}

/* Compares the most memory that the options allow with the memory of the host. This is only a
 * warning, because most jobs need far less. */
static void check_memory(const struct daemon *daemon)
{
    const struct options *options = daemon->options;
    uint64_t bytes = options_memory_max(options, &daemon->host);
    if (bytes <= daemon->host.memory_bytes)
        return;
    log_warning("the daemon may use %" PRIu64 "M of memory, but %" PRIu64 " workers, pinned_bytes "
                "= %" PRIu64 "M, host_bytes = %" PRIu64 "M and input_bytes_max = %" PRIu64
                "M may need %" PRIu64 "M: raise the memory limit to that, or lower these options",
                mib(daemon->host.memory_bytes), options->workers, mib(options->pinned_bytes),
                mib(options->host_bytes), mib(options->input_bytes_max), mib(bytes));
}

static void say_error(const char *text)
{
    log_error("%s", text);
}

static void reload(struct daemon *daemon)
{
    struct options fresh;
    struct error error = {0};
    struct errors errors = {.say = say_error};
    notify_reloading();
    if (daemon->load(daemon->load_context, &fresh, &errors)) {
        options_adopt(daemon->options, &fresh);
        group_reload(daemon->group);
        check_memory(daemon);
        log_set_level(log_level_parse(daemon->options->log_level));
        start_gpu_check(daemon);
        if (!fetcher_reload(daemon->fetcher, &error))
            log_error("%s; jobs go on with the old prefixes", error.text);
        log_info("configuration reloaded");
    } else {
        log_error("reload failed, the old configuration stays");
    }
    options_clear(&fresh);
    monitor_reload(daemon->monitor);
    notify_state("READY=1");
    monitor_look(daemon->monitor);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;
    if (!daemon->running) /* uncovered: moment */
        return; /* the start has failed: the loop only closes its handles */
    switch (number) {
    case SIGTERM:
    case SIGINT:
        on_terminate(daemon, number == SIGTERM ? "SIGTERM" : "SIGINT");
        break;
    case SIGHUP:
        reload(daemon);
        break;
    case SIGUSR1:
        monitor_write_stats(daemon->monitor, true);
        trace_draw(daemon->trace);
        break;
    case SIGUSR2:
        if (daemon->draining) /* uncovered: moment */
            break;
        daemon->paused = !daemon->paused;
        log_info("SIGUSR2: fetching is %s", daemon->paused ? "paused" : "resumed");
        pipeline_pause(daemon->pipeline, daemon->paused);
        monitor_set_state(daemon->monitor, daemon->paused ? SNAPSHOT_PAUSED : SNAPSHOT_RUNNING,
                          NULL);
        break;
    }
}

/* ---- start ---------------------------------------------------------------------------------- */

/* The daemon does not start. Returns the status. */
static enum exit_status refuse(enum exit_status status, const struct error *error)
{
    log_error("%s", error->text);
    notify_status("%s", error->text);
    return status;
}

/* Installs the signal handlers. The signals are blocked meanwhile: a signal without a handler would
 * end the process, and one during uv_signal_start could find a lock of libuv taken that the handler
 * needs. */
static void listen_to_signals(struct daemon *daemon)
{
    sigset_t ours, before;
    sigemptyset(&ours);
    for (size_t i = 0; i < SIGNALS; i++)
        sigaddset(&ours, signals[i]);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    for (size_t i = 0; i < SIGNALS; i++) {
        uv_signal_init(&daemon->loop, &daemon->signals[i]);
        daemon->signals[i].data = daemon;
        uv_signal_start(&daemon->signals[i], on_signal, signals[i]);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void init_handles(struct daemon *daemon)
{
    uv_timer_t *timers[] = {&daemon->check_timer, &daemon->watchdog_timer, &daemon->drain_timer,
                            &daemon->sweep_timer};
    uv_async_init(&daemon->loop, &daemon->engine_async, on_engine);
    daemon->engine_async.data = daemon;
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        uv_timer_init(&daemon->loop, timers[i]);
        timers[i]->data = daemon;
    }
    listen_to_signals(daemon);
}

/* The threads besides the workers and those of devices that need a CPU while many jobs run: with
 * CUDA, the loop and a Redis on this host. On the CPU engine both need little time. */
static uint32_t other_threads(const struct daemon *daemon)
{
    return engine_is_synchronous(daemon->engine) ? 0 : 1u + shard_is_local(daemon->options);
}

static uint64_t devices_cpu_ns(const void *engine)
{
    return engine_cpu_ns(engine);
}

static void say_limits(const struct machine *machine, const struct options *options)
{
    if (*machine->memory_limit)
        log_info("%s limits memory to %" PRIu64 "M: pinned_bytes = %" PRIu64 "M, host_bytes = %"
                 PRIu64 "M, workers = %" PRIu64, machine->memory_limit,
                 mib(machine->memory_bytes), mib(options->pinned_bytes), mib(options->host_bytes),
                 options->workers);
    if (*machine->cpu_limit)
        log_info("%s limits CPUs to %" PRIu64 ": workers = %" PRIu64, machine->cpu_limit,
                 machine->cpus, options->workers);
}

/* Replaces the value "auto" of the options that depend on the engine. */
static void resolve_for_engine(struct daemon *daemon, const struct machine *machine)
{
    struct options *options = daemon->options;
    uint32_t devices = engine_devices(daemon->engine);
    daemon->host = (struct options_host){
        .memory_bytes = machine->memory_bytes,
        .cpus = machine->cpus,
        .others = other_threads(daemon),
        .devices = devices,
        .slots = engine_slots(daemon->engine),
        .ahead = options->inflight > 0 ? 0 : INFLIGHT_AHEAD_MAX + devices * INFLIGHT_DEVICE_MAX,
    };
    daemon->workers_pausing = options_resolve_workers(options, &daemon->host);
    options_resolve_inflight(options, daemon->host.slots);
    say_limits(machine, options);
    check_memory(daemon);
}

/* Opens and checks the codecs of the devices that the options allow. */
static bool open_codecs(struct daemon *daemon, struct error *error)
{
    bool wanted[DEVICE_CODECS] = {false}, any = false, ok = true;
    for (enum device_codec codec = DEVICE_CODEC_NONE + 1; codec < DEVICE_CODECS; codec++)
        any |= wanted[codec] = strcmp(device_codec_option(daemon->options, codec), "cpu") != 0 &&
                               !codec_refusal(&formats[device_codecs[codec].format], true);
    if (!any || !engine_prepare_codecs(daemon->engine))
        return true;
    for (enum device_codec codec = DEVICE_CODEC_NONE + 1; ok && codec < DEVICE_CODECS; codec++)
        ok = !wanted[codec] || codec_check_run(daemon->engine, codec, error);
    return ok;
}

static bool open_engine(struct daemon *daemon, struct error *error)
{
    struct options *options = daemon->options;
    struct machine machine;
    machine_read(&machine);
    options_resolve(options, machine.memory_bytes, machine.cpus);
    struct engine_config config = {
        .kind = options->engine,
        .devices = options->devices,
        .streams = (uint32_t)options->streams,
        .pinned_bytes = options->pinned_bytes,
        .device_bytes = options->device_bytes,
        .hang_grace_s = options->hang_grace_s,
        .failed = on_engine_failed,
        .context = daemon,
    };
    if (engine_open(&config, &daemon->engine, error) != STATUS_OK) /* uncovered: service */
        return false;
    resolve_for_engine(daemon, &machine);
    daemon->test_image = test_image_create(error);
    if (!daemon->test_image || !selftest_run(daemon->engine, daemon->test_image, error))
        return false;
    if (!open_codecs(daemon, error))
        return false;
    program_pages_release();
    return true;
}

static bool open_trace(struct daemon *daemon, struct error *error)
{
    const struct options *options = daemon->options;
    struct trace_config config = {
        .chrome = options->trace,
        .timeline = options->timeline,
        .bytes_max = options->trace_bytes_max,
        .origin_ns = clock_now_ns(),
        .daemon = daemon->name,
        .engine = engine_description(daemon->engine),
        .workers = (uint32_t)options->workers,
        .devices = engine_devices(daemon->engine),
    };
    for (uint32_t d = 0; d < config.devices; d++) {
        uint32_t streams = engine_slots_of(daemon->engine, d);
        config.streams = streams > config.streams ? streams : config.streams;
        text_copy(config.names[d], sizeof config.names[d], engine_name(daemon->engine, d));
    }
    return trace_open(&config, &daemon->trace, error) == STATUS_OK;
}

/* Whether the process may open as many files as these options need at most. Otherwise jobs would
 * fail later, although nothing is wrong with them. */
static bool check_descriptors(const struct daemon *daemon, struct error *error)
{
    uint64_t needed = options_descriptors_min(
        daemon->options, daemon->engine ? engine_devices(daemon->engine) : 0);
    return daemon->descriptors >= needed ||
           error_refuse(error,
                        "the limit of open files is %" PRIu64 "; with these options it must be at "
                        "least %" PRIu64 ": raise ulimit -n or LimitNOFILE=, or lower workers, "
                        "shards or url_connections",
                        daemon->descriptors, needed);
}

static enum exit_status open_parts(struct daemon *daemon)
{
    struct options *options = daemon->options;
    struct error error = {0};
    /* Checked before the parts are opened, and again when the number of devices is known. */
    if (!check_descriptors(daemon, &error))
        return refuse(EXIT_CONFIGURATION, &error);
    if (instance_self(daemon->instance, daemon->name))
        daemon->monitor = monitor_open(&daemon->loop, options, daemon->name, &error);
    else /* uncovered: promise */
        error_refuse(&error, "cannot read /proc/self for the name of the daemon");
    if (!daemon->monitor || !files_open(&daemon->files, options->input_root, options->output_root,
                                        daemon->instance, &error))
        return refuse(EXIT_CONFIGURATION, &error);
    if (!selftest_codecs(&error))
        return refuse(error.status == STATUS_OUT_OF_MEMORY ? EXIT_FAULT : EXIT_CONFIGURATION,
                      &error);
    if (!open_engine(daemon, &error))
        return refuse(EXIT_FAULT, &error);
    if (!check_descriptors(daemon, &error))
        return refuse(EXIT_CONFIGURATION, &error);
    if ((*options->trace || *options->timeline) && !open_trace(daemon, &error))
        return refuse(EXIT_CONFIGURATION, &error);
    daemon->fetcher = fetcher_create(&daemon->loop, options,
                                     &monitor_totals(daemon->monitor)->urls, &error);
    if (!daemon->fetcher)
        return refuse(EXIT_CONFIGURATION, &error);
    daemon->workers = workers_create(&daemon->loop, (uint32_t)options->workers);
    struct pipeline_parts parts = {
        .loop = &daemon->loop,
        .options = options,
        .engine = daemon->engine,
        .workers = daemon->workers,
        .files = &daemon->files,
        .fetcher = daemon->fetcher,
        .totals = monitor_totals(daemon->monitor),
        .tags = monitor_tags(daemon->monitor),
        .trace = daemon->trace,
        .daemon = daemon->name,
        .ahead_max = daemon->host.ahead,
        .failed = on_failed,
        .disk_changed = on_disk_changed,
        .context = daemon,
    };
    if (daemon->workers) {
        workers_leave_cpus(daemon->workers, daemon->workers_pausing, devices_cpu_ns,
                           daemon->engine);
        daemon->pipeline = pipeline_create(&parts);
    }
    if (daemon->pipeline && !engine_is_synchronous(daemon->engine))
        daemon->gpu_check =
            gpu_check_create(&daemon->loop, daemon->engine, daemon->workers, daemon->test_image);
    if (!daemon->pipeline || (!daemon->gpu_check && !engine_is_synchronous(daemon->engine))) {
        error_refuse(&error, "no memory, threads or file descriptors for %" PRIu64 " workers",
                     options->workers);
        return refuse(EXIT_FAULT, &error); /* uncovered: memory */
    }
    struct queue_events events = pipeline_events(daemon->pipeline);
    daemon->group = group_create(&daemon->loop, options, daemon->instance, &events, &error);
    if (!daemon->group) /* uncovered: memory */
        return refuse(EXIT_CONFIGURATION, &error);
    return EXIT_OK;
}

/* Logs which formats this program cannot read or write. */
static void say_formats(void)
{
    for (const struct format *format = formats; format < formats + FORMAT_COUNT; format++) {
        const char *reads = codec_refusal(format, false);
        const char *writes = format->becomes ? NULL : codec_refusal(format, true);
        if (format->reads && (reads || writes))
            log_info("no %s %s: %s", format_title(format), reads ? "files" : "outputs",
                     reads ? reads : writes);
    }
}

static void say_source(const struct daemon *daemon)
{
    const struct options *options = daemon->options;
    uint32_t last = group_shard_count(daemon->group) - 1;
    if (last == 0)
        log_info("jobs from %s, list %s:jobs; images from %s to %s", options->redis,
                 options->namespace, options->input_root, options->output_root);
    else
        log_info("jobs from %s, lists %s:jobs to %s:jobs; images from %s to %s", options->redis,
                 group_namespace(daemon->group, 0), group_namespace(daemon->group, last),
                 options->input_root, options->output_root);
}

static void say_hello(const struct daemon *daemon)
{
    const struct options *options = daemon->options;
    log_info("gpuimgd " GPUIMGD_VERSION " on %s: %" PRIu64 " workers, %" PRIu64
             " jobs in flight, pinned %" PRIu64 " MB, host %" PRIu64 " MB",
             engine_description(daemon->engine), options->workers, options->inflight,
             options->pinned_bytes / 1000000, options->host_bytes / 1000000);
    say_source(daemon);
    say_formats();
}

static void start(struct daemon *daemon)
{
    uint64_t watchdog_ms = notify_watchdog_interval_ms();
    uint64_t sweep_ms = (uint64_t)(daemon->options->reap_s * 1e3);
    monitor_swept(daemon->monitor, files_sweep(&daemon->files, leftover_age_s(daemon)));
    start_gpu_check(daemon);
    uv_timer_start(&daemon->check_timer, on_check, CHECK_MS, CHECK_MS);
    uv_timer_start(&daemon->sweep_timer, on_sweep, sweep_ms, sweep_ms);
    if (watchdog_ms > 0)
        uv_timer_start(&daemon->watchdog_timer, on_watchdog, watchdog_ms, watchdog_ms);
    daemon->running = true;
    monitor_start(daemon->monitor, daemon->engine, daemon->workers, daemon->gpu_check,
                  daemon->pipeline, daemon->group);
    pipeline_attach(daemon->pipeline, daemon->group);
    group_start(daemon->group);
    say_hello(daemon);
    notify_state("READY=1");
    monitor_look(daemon->monitor);
}

/* ---- shutdown ------------------------------------------------------------------------------- */

static void close_walk(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void close_parts(struct daemon *daemon)
{
    monitor_stop_fleet(daemon->monitor);
    if (daemon->pipeline)
        pipeline_attach(daemon->pipeline, NULL);
    if (daemon->group)
        group_destroy(daemon->group);
    if (daemon->workers)
        workers_stop(daemon->workers);
    if (daemon->pipeline)
        pipeline_stop(daemon->pipeline);
    fetcher_stop(daemon->fetcher);
    uv_walk(&daemon->loop, close_walk, NULL);
    uv_run(&daemon->loop, UV_RUN_DEFAULT);
    monitor_close(daemon->monitor);
    pipeline_destroy(daemon->pipeline);
    fetcher_destroy(daemon->fetcher);
    trace_close(daemon->trace);
    gpu_check_destroy(daemon->gpu_check);
    test_image_destroy(daemon->test_image);
    engine_close(daemon->engine); /* before the workers: its threads submit tasks to them */
    workers_destroy(daemon->workers);
    files_close(&daemon->files);
    uv_loop_close(&daemon->loop);
}

enum exit_status daemon_run(struct options *options, daemon_load *load, void *context, bool *abrupt)
{
    struct daemon *daemon = calloc(1, sizeof *daemon);
    uint64_t descriptors = machine_raise_descriptors();
    *abrupt = false;
    if (!daemon || uv_loop_init(&daemon->loop) != 0) { /* uncovered: memory */
        log_error("no memory to start");
        free(daemon);
        return EXIT_FAULT;
    }
    mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES);
    mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_BYTES);
    daemon->options = options;
    daemon->descriptors = descriptors;
    daemon->load = load;
    daemon->load_context = context;
    daemon->files = (struct files){.input_root = -1, .output_root = -1, .temporary = -1};
    init_handles(daemon);
    enum exit_status status = open_parts(daemon);
    if (status == EXIT_OK) {
        start(daemon);
        uv_run(&daemon->loop, UV_RUN_DEFAULT);
        status = daemon->exit_status;
        monitor_write_stats(daemon->monitor, true);
        log_info("stopped after %" PRIu64 " jobs, exit status %d",
                 metrics_jobs(monitor_totals(daemon->monitor)), status);
        *abrupt = pipeline_is_used(daemon->pipeline) ||
                  gpu_check_is_running(daemon->gpu_check) || daemon->sweeping;
    }
    if (status == EXIT_FAULT)
        *abrupt = true; /* the device may still write to memory that close_parts would free */
    /* Close only what remains after the process: the file of the trace, and the unix socket. */
    if (*abrupt) {
        trace_close(daemon->trace);
        monitor_stop_http(daemon->monitor);
        return status;
    }
    close_parts(daemon);
    free(daemon);
    return status;
}
