#include "daemon/pipeline.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conf/log.h"
#include "daemon/clock.h"
#include "daemon/pipeline_impl.h"
#include "daemon/work.h"

/* Inputs that come out of Redis pass through the client's memory; so many at a time. */
#define KEY_READS_MAX 4
/* How often deadlines are looked at while jobs are in flight. */
#define TICK_MS 100

struct pipeline {
    struct pipeline_parts parts;
    struct queue *queue;
    struct pool *file_pool;
    size_t codec_bytes, codec_bytes_max; /* lane of host_bytes for the libraries' own memory */

    struct work *works; /* `inflight` of them */
    struct list free;
    struct list stages[STAGE_COUNT];
    struct list zombies; /* answered, but a worker or stream still has them */

    bool paused, failed;
    bool read_stalled; /* the first read that waits needs room that is not there */
    uint32_t key_reads;
    uv_timer_t tick;
    void (*drained)(void *context);
    void *drained_context;
};

/* ---- the stages ----------------------------------------------------------------------------- */

static void enter_read(struct work *work);
static void enter_admit(struct work *work);
static void enter_on_worker(struct work *work);
static void enter_gpu(struct work *work);
static void enter_ack(struct work *work);

/* Every stage: its name, how it begins on the loop, and what a worker then does. Of the errands
 * that wait for a worker the one nearest to its end goes first. */
static const struct stage_row {
    const char *name;
    void (*enter)(struct work *work);
    void (*run)(struct work *work, struct worker_tools *tools);
    uint32_t priority;
} stage_table[STAGE_COUNT] = {
    [STAGE_READ] = {"read", enter_read, work_read, 0},
    [STAGE_ADMIT] = {"admit", enter_admit, NULL, 0},
    [STAGE_DECODE] = {"decode", enter_on_worker, work_decode, 1},
    [STAGE_GPU] = {"gpu", enter_gpu, work_compute, 2},
    [STAGE_ENCODE] = {"encode", enter_on_worker, work_encode, 3},
    [STAGE_ACK] = {"ack", enter_ack, NULL, 0},
};

static void pump(struct pipeline *pipeline);

struct files *pipeline_files(struct pipeline *pipeline)
{
    return pipeline->parts.files;
}

struct engine *pipeline_engine(struct pipeline *pipeline)
{
    return pipeline->parts.engine;
}

struct pool *pipeline_file_pool(struct pipeline *pipeline)
{
    return pipeline->file_pool;
}

/* The one place where a work changes its stage. */
static void move_to(struct work *work, enum stage stage)
{
    struct pipeline *pipeline = work->pipeline;
    list_remove(&pipeline->stages[work->stage], &work->node);
    work->stage = stage;
    list_push(&pipeline->stages[stage], &work->node);
    stage_table[stage].enter(work);
}

static void release_file(struct work *work)
{
    if (work->file.memory) {
        pool_give(work->pipeline->file_pool, &work->file);
        work->pipeline->read_stalled = false;
    }
    free(work->loaded);
    work->loaded = NULL;
}

/* Everything but the job itself; idempotent. */
static void release_memory(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    release_file(work);
    pipeline->codec_bytes -= work->codec_bytes;
    work->codec_bytes = 0;
    engine_release(pipeline->parts.engine, &work->memory);
    plan_clear(&work->plan);
}

static void drop_values(struct work *work)
{
    for (size_t i = 0; i < work->job.output_count; i++) {
        free(work->outputs[i].value.value);
        work->outputs[i].value = (struct queue_value){0};
    }
}

/* A work that nothing points to any more becomes a free place. */
static void recycle(struct work *work, struct list *from)
{
    struct pipeline *pipeline = work->pipeline;
    release_memory(work);
    drop_values(work);
    image_info_clear(&work->info);
    job_clear(&work->job);
    list_remove(from, &work->node);
    list_push(&pipeline->free, &work->node);
}

static void offer_places(struct pipeline *pipeline)
{
    if (!pipeline->queue)
        return;
    bool open = !pipeline->paused && !pipeline->failed;
    queue_set_places(pipeline->queue, open ? (uint32_t)pipeline->free.length : 0);
}

static void tell_if_idle(struct pipeline *pipeline)
{
    if (!pipeline->drained || pipeline_unfinished(pipeline) > 0)
        return;
    void (*drained)(void *) = pipeline->drained;
    pipeline->drained = NULL;
    drained(pipeline->drained_context);
}

/* A stage has ended well or badly: on to the next one. */
static void advance(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    enum stage next = work->stage + 1;
    if (work->stage == STAGE_DECODE) {
        release_file(work);
        pipeline->codec_bytes -= work->codec_bytes;
        work->codec_bytes = 0;
    }
    if (pipeline->failed && next <= STAGE_GPU && work->error.status == STATUS_OK)
        work->give_back = true;
    if (work->error.status != STATUS_OK || work->give_back || atomic_load(&work->lost))
        next = STAGE_ACK;
    move_to(work, next);
    pump(pipeline);
}

/* ---- read ----------------------------------------------------------------------------------- */

static void on_key_read(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    struct work *work = context;
    struct pipeline *pipeline = work->pipeline;
    work->reading = NULL;
    pipeline->key_reads--;
    if (error) {
        work->error = *error;
        advance(work);
        return;
    }
    work->loaded = bytes;
    work->file_bytes = length;
    pump(pipeline);
}

static void start_errand(struct work *work)
{
    work->out = true;
    work->errand.priority = stage_table[work->stage].priority;
    workers_submit(work->pipeline->parts.workers, &work->errand);
}

static void start_read(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    if (!work->job.input.key || work->loaded) {
        start_errand(work);
        return;
    }
    if (pipeline->key_reads >= KEY_READS_MAX)
        return;
    pipeline->key_reads++;
    work->reading = queue_read(pipeline->queue, work->job.input.key, work->input_bytes_max,
                               on_key_read, work);
}

static void enter_read(struct work *work)
{
    (void)work; /* pump starts it */
}

static void pump_reads(struct pipeline *pipeline)
{
    list_each_safe (node, after, &pipeline->stages[STAGE_READ]) {
        struct work *work = container_of(node, struct work, node);
        if (pipeline->read_stalled)
            return;
        if (!work->out && !work->reading)
            start_read(work);
    }
}

/* ---- admit ---------------------------------------------------------------------------------- */

static void enter_admit(struct work *work)
{
    work->admit_ns = clock_now_ns();
}

/* What the libraries will take: the decoder, and an encoder that must hold the whole picture. */
static size_t codec_need(const struct work *work)
{
    size_t need = work->info.codec_bytes;
    for (size_t i = 0; i < work->job.output_count; i++) {
        const struct work_output *output = &work->outputs[i];
        if (output->error.status != STATUS_OK || !work->job.outputs[i].progressive)
            continue;
        const struct plan_variant *variant = &work->plan.variants[output->variant];
        size_t coefficients =
            (size_t)variant->width * variant->height * variant->channels * sizeof(int16_t);
        if (coefficients > need)
            need = coefficients; /* one after the other, so the largest counts */
    }
    return need;
}

/* true: admitted, or failed for good; false: must wait. */
static bool admit(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    size_t need = codec_need(work);
    if (need > pipeline->codec_bytes_max) {
        error_set(&work->error, STATUS_OVER_BUDGET,
                  "decoding and encoding need %zu bytes; half of host_bytes, %zu, is all there is",
                  need, pipeline->codec_bytes_max);
        return true;
    }
    if (need > pipeline->codec_bytes_max - pipeline->codec_bytes)
        return false;
    enum engine_reserved reserved =
        engine_reserve(pipeline->parts.engine, &work->plan, &work->memory, &work->error);
    if (reserved == ENGINE_WAIT)
        return false;
    if (reserved == ENGINE_RESERVED) {
        pipeline->codec_bytes += need;
        work->codec_bytes = need;
    }
    return true;
}

static void pump_admits(struct pipeline *pipeline)
{
    struct list *waiting = &pipeline->stages[STAGE_ADMIT];
    while (!list_empty(waiting)) {
        struct work *work = container_of(list_first(waiting), struct work, node);
        if (!admit(work))
            return;
        work->ms[STAGE_ADMIT] = clock_ms(work->admit_ns, clock_now_ns());
        move_to(work, work->error.status == STATUS_OK ? STAGE_DECODE : STAGE_ACK);
    }
}

/* Starts whatever can start now. Called after each event that may have freed something. */
static void pump(struct pipeline *pipeline)
{
    pump_admits(pipeline);
    pump_reads(pipeline);
    offer_places(pipeline);
    tell_if_idle(pipeline);
}

/* ---- workers and engine --------------------------------------------------------------------- */

static void run_errand(struct errand *errand, struct worker_tools *tools)
{
    struct work *work = container_of(errand, struct work, errand);
    enum stage stage = work->stage;
    uint64_t begin = clock_now_ns();
    stage_table[stage].run(work, tools);
    double before = work->ms[stage] > 0 ? work->ms[stage] : 0; /* a read that had to wait for room */
    work->ms[stage] = before + clock_ms(begin, clock_now_ns());
}

static void on_errand_done(struct errand *errand)
{
    struct work *work = container_of(errand, struct work, errand);
    struct pipeline *pipeline = work->pipeline;
    work->out = false;
    if (work->abandoned) {
        recycle(work, &pipeline->zombies);
        pump(pipeline);
        return;
    }
    if (work->stage == STAGE_READ && work->again) {
        pipeline->read_stalled = true;
        if (pool_usage(pipeline->file_pool).used == 0)
            pipeline->read_stalled = false; /* it was freed while the errand came back */
        pump(pipeline);
        return;
    }
    if (work->stage == STAGE_GPU && work->error.status == STATUS_OK)
        work->error = work->task.error;
    advance(work);
}

static void enter_on_worker(struct work *work)
{
    start_errand(work);
}

static void on_task_done(struct engine_task *task)
{
    struct work *work = container_of(task, struct work, task);
    struct pipeline *pipeline = work->pipeline;
    work->out = false;
    if (work->abandoned) {
        recycle(work, &pipeline->zombies);
        pump(pipeline);
        return;
    }
    work->error = task->error;
    if (task->error.status == STATUS_GPU_FAILED && !task->on_device)
        work->give_back = true; /* a neighbour's fault, or the device's */
    advance(work);
}

static void enter_gpu(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    work->reached_engine = true;
    if (work->plan.idle) {
        advance(work);
        return;
    }
    work->computed = true;
    work->task = (struct engine_task){
        .plan = &work->plan,
        .memory = &work->memory,
        .deadline_ns = work->deadline_ns,
        .done = on_task_done,
    };
    if (engine_is_synchronous(pipeline->parts.engine)) {
        start_errand(work);
        return;
    }
    work->out = true;
    engine_submit(pipeline->parts.engine, &work->task);
}

/* ---- ack ------------------------------------------------------------------------------------ */

static void count(const struct work *work, bool done, bool retried, bool dead)
{
    const struct engine_task *task = &work->task;
    struct stats_job job = {
        .done = done,
        .retried = retried,
        .dead = dead,
        .pixels = (uint64_t)work->info.width * work->info.height,
        .bytes_in = work->file_bytes,
        .read_ms = work->ms[STAGE_READ],
        .decode_ms = work->ms[STAGE_DECODE],
        .gpu_ms = work->computed ? task->h2d_ms + task->kernel_ms + task->d2h_ms : -1,
        .encode_ms = work->ms[STAGE_ENCODE],
        .total_ms = clock_ms(work->fetched_ns, clock_now_ns()),
    };
    for (size_t i = 0; i < work->job.output_count; i++) {
        if (work->outputs[i].bytes > 0 && work->outputs[i].error.status == STATUS_OK) {
            job.images++;
            job.bytes_out += work->outputs[i].bytes;
        }
    }
    if (!done)
        job.pixels = 0;
    stats_add(work->pipeline->parts.stats, &job);
}

static void give_lease_back(struct work *work)
{
    queue_nack(work->pipeline->queue, work->lease, NACK_GIVE_BACK, NULL, work->job.id,
               work->job.reply_to);
}

static void answer(struct work *work, const struct error *error, bool brief)
{
    struct pipeline *pipeline = work->pipeline;
    struct queue_value values[JOB_OUTPUTS_MAX];
    size_t value_count = 0;
    bool ok = error->status == STATUS_OK, retry = !ok && status_retryable(error->status);
    char *text = work_answer(work, ok ? "done" : retry ? "dead" : "failed", ok ? NULL : error,
                             pipeline->parts.daemon, brief);
    if (!text) {
        log_error("job %" PRIu64 ": no memory for its result; the job goes back",
                  work->lease->number);
        give_lease_back(work);
        return;
    }
    if (retry) {
        log_warning("job %" PRIu64 ", attempt %u: %s: %s", work->lease->number,
                    work->lease->attempt, status_name(error->status), error->text);
        queue_nack(pipeline->queue, work->lease, NACK_RETRY, text, work->job.id,
                   work->job.reply_to);
        return;
    }
    if (!ok)
        log_info("job %" PRIu64 " failed: %s: %s", work->lease->number,
                 status_name(error->status), error->text);
    for (size_t i = 0; !brief && i < work->job.output_count; i++) {
        if (work->outputs[i].value.value) {
            values[value_count++] = work->outputs[i].value;
            work->outputs[i].value = (struct queue_value){0};
        }
    }
    queue_done(pipeline->queue, work->lease, text, work->job.id, work->job.reply_to, values,
               value_count);
}

static void enter_ack(struct work *work)
{
    if (work->give_back || atomic_load(&work->lost)) {
        release_memory(work);
        give_lease_back(work);
        return;
    }
    answer(work, &work->error, false);
    release_memory(work);
}

/* Answers a work that a worker or stream still holds; it stays behind as a zombie. error NULL: the
 * lease is given back. */
static void abandon(struct work *work, const struct error *error)
{
    struct pipeline *pipeline = work->pipeline;
    atomic_store(&work->lost, true);
    work->abandoned = true;
    list_remove(&pipeline->stages[work->stage], &work->node);
    list_push(&pipeline->zombies, &work->node);
    work->lease->job = NULL;
    if (error)
        answer(work, error, true);
    else
        give_lease_back(work);
    work->lease = NULL;
}

/* ---- the queue's events --------------------------------------------------------------------- */

static void take_bounds(struct work *work, const struct options *options)
{
    work->limits = (struct codec_limits){
        .pixels_max = options->pixels_max,
        .side_max = (uint32_t)options->side_max,
        .jpeg_scans_max = (uint32_t)options->jpeg_scans_max,
        .jpeg_warnings_max = JPEG_WARNINGS_MAX,
        .lenient = options->lenient,
    };
    work->plan_limits = (struct plan_limits){options->pixels_max, (uint32_t)options->side_max};
    work->input_bytes_max = options->input_bytes_max;
    work->decode_timeout_s = options->decode_timeout_s;
    work->sync = options->sync_outputs;
}

static struct work *take_work(struct pipeline *pipeline, struct lease *lease)
{
    struct list_node *node = list_pop(&pipeline->free);
    if (!node)
        return NULL;
    struct work *work = container_of(node, struct work, node);
    memset(work, 0, sizeof *work);
    work->pipeline = pipeline;
    work->lease = lease;
    work->number = lease->number;
    work->fetch = lease->fetch;
    lease->job = work;
    work->errand.run = run_errand;
    work->errand.done = on_errand_done;
    work->fetched_ns = clock_now_ns();
    work->queue_ms = -1;
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        work->ms[stage] = -1;
    work->stage = STAGE_READ;
    take_bounds(work, pipeline->parts.options);
    list_push(&pipeline->stages[STAGE_READ], &work->node);
    return work;
}

/* A bad operation fails its own output; the job goes on for the others, if there are any. */
static void check_operations(struct work *work)
{
    bool single = work->job.output_count == 1;
    size_t good = 0;
    for (size_t i = 0; i < work->job.output_count; i++)
        good += plan_check_ops(work->job.outputs[i].ops, single ? -1 : (int)i,
                               &work->outputs[i].error) == STATUS_OK;
    if (good == 0)
        work->error = work->outputs[0].error;
}

static void parse(struct work *work, const struct lease *lease)
{
    const struct options *options = work->pipeline->parts.options;
    struct job_rules rules = {options->namespace, codec_names(), options->job_timeout_s};
    if (!lease->raw) {
        error_set(&work->error, STATUS_BAD_JSON, "the job has %zu bytes; at most %llu are allowed",
                  lease->raw_bytes, JOB_BYTES_MAX);
        return;
    }
    if (job_parse(&work->job, lease->raw, lease->raw_bytes, &rules, &work->error) != STATUS_OK)
        return;
    work->deadline_ns = clock_after_s(work->fetched_ns, work->job.timeout_s);
    if (work->job.pushed > 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        double waited = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - work->job.pushed;
        work->queue_ms = waited > 0 ? waited * 1e3 : 0;
    }
    check_operations(work);
}

static void on_leased(void *context, struct lease *lease)
{
    struct pipeline *pipeline = context;
    struct work *work = take_work(pipeline, lease);
    if (!work) {
        assert(!"the queue fetched more than it was offered");
        queue_nack(pipeline->queue, lease, NACK_GIVE_BACK, NULL, NULL, NULL);
        return;
    }
    work->deadline_ns = clock_after_s(work->fetched_ns, pipeline->parts.options->job_timeout_s);
    if (!uv_is_active((uv_handle_t *)&pipeline->tick))
        uv_timer_again(&pipeline->tick);
    parse(work, lease);
    if (pipeline->failed && work->error.status == STATUS_OK)
        work->give_back = true;
    if (work->error.status != STATUS_OK || work->give_back)
        move_to(work, STAGE_ACK);
    pump(pipeline);
}

static void on_lost(void *context, struct lease *lease)
{
    struct pipeline *pipeline = context;
    struct work *work = lease->job;
    if (!work)
        return;
    log_warning("job %" PRIu64 " is no longer ours: its lease ran out", lease->number);
    atomic_store(&work->lost, true);
    if (!work->out && work->stage < STAGE_DECODE) {
        if (work->reading) {
            queue_read_cancel(pipeline->queue, work->reading);
            work->reading = NULL;
            pipeline->key_reads--;
        }
        move_to(work, STAGE_ACK);
        pump(pipeline);
    }
}

static void on_settled(void *context, struct lease *lease, bool stale, bool dead)
{
    struct pipeline *pipeline = context;
    struct work *work = lease->job;
    if (!work)
        return; /* abandoned: it became a zombie or a free place long ago */
    bool retry = work->error.status != STATUS_OK && status_retryable(work->error.status);
    if (!stale && !work->give_back && !atomic_load(&work->lost))
        count(work, work->error.status == STATUS_OK, retry && !dead, dead);
    recycle(work, &pipeline->stages[STAGE_ACK]);
    pump(pipeline);
}

struct queue_events pipeline_events(struct pipeline *pipeline)
{
    return (struct queue_events){
        .context = pipeline, .leased = on_leased, .lost = on_lost, .settled = on_settled};
}

void pipeline_attach(struct pipeline *pipeline, struct queue *queue)
{
    pipeline->queue = queue;
    offer_places(pipeline);
}

/* ---- deadlines ------------------------------------------------------------------------------ */

/* Takes a work that waits on the loop or for a worker out of its wait; false: it is under way. */
static bool withdraw(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    if (work->reading) {
        queue_read_cancel(pipeline->queue, work->reading);
        work->reading = NULL;
        pipeline->key_reads--;
        return true;
    }
    if (!work->out)
        return true;
    bool on_engine = work->stage == STAGE_GPU && !engine_is_synchronous(pipeline->parts.engine);
    if (on_engine || !workers_withdraw(pipeline->parts.workers, &work->errand))
        return false;
    work->out = false;
    return true;
}

static void replace_worker(struct work *work, const struct error *error)
{
    struct pipeline *pipeline = work->pipeline;
    struct workers *workers = pipeline->parts.workers;
    log_error("job %" PRIu64 ": a worker hangs in stage %s and is replaced", work->lease->number,
              stage_table[work->stage].name);
    bool replaced = workers_give_up(workers, &work->errand);
    abandon(work, error);
    if (!replaced || workers_given_up(workers) >= pipeline->parts.options->workers)
        pipeline->parts.failed(pipeline->parts.context, "too many workers hang");
}

/* A work past its deadline: at once where it waits, after a grace where a worker has it (which
 * looks at the deadline itself), never here where the engine has it (which ends it). */
static void check_deadline(struct work *work, uint64_t now)
{
    struct pipeline *pipeline = work->pipeline;
    if (now < work->deadline_ns)
        return;
    struct error error = {0};
    error_set(&error, STATUS_TIMEOUT, "the job did not end within its %g s; it was in stage %s",
              work->job.timeout_s, stage_table[work->stage].name);
    if (withdraw(work)) {
        work->error = error;
        move_to(work, STAGE_ACK);
        return;
    }
    bool on_worker = work->stage != STAGE_GPU || engine_is_synchronous(pipeline->parts.engine);
    if (on_worker && now > clock_after_s(work->deadline_ns, pipeline->parts.options->hang_grace_s))
        replace_worker(work, &error);
}

static void on_tick(uv_timer_t *timer)
{
    struct pipeline *pipeline = timer->data;
    uint64_t now = clock_now_ns();
    for (enum stage stage = 0; stage < STAGE_ACK; stage++)
        list_each_safe (node, after, &pipeline->stages[stage])
            check_deadline(container_of(node, struct work, node), now);
    engine_reap(pipeline->parts.engine);
    pump(pipeline);
    if (pipeline_inflight(pipeline) == 0)
        uv_timer_stop(&pipeline->tick);
}

/* ---- ending early --------------------------------------------------------------------------- */

static void give_back_stage(struct pipeline *pipeline, enum stage stage, bool by_force)
{
    list_each_safe (node, after, &pipeline->stages[stage]) {
        struct work *work = container_of(node, struct work, node);
        if (withdraw(work)) {
            work->give_back = true;
            move_to(work, STAGE_ACK);
        } else if (by_force) {
            abandon(work, NULL);
        }
    }
}

void pipeline_give_back(struct pipeline *pipeline)
{
    for (enum stage stage = 0; stage < STAGE_ACK; stage++)
        give_back_stage(pipeline, stage, true);
    pump(pipeline);
}

void pipeline_engine_failed(struct pipeline *pipeline)
{
    if (pipeline->failed)
        return;
    pipeline->failed = true;
    give_back_stage(pipeline, STAGE_READ, false);
    give_back_stage(pipeline, STAGE_ADMIT, false);
    give_back_stage(pipeline, STAGE_DECODE, false);
    pump(pipeline);
}

void pipeline_pause(struct pipeline *pipeline, bool paused)
{
    pipeline->paused = paused;
    offer_places(pipeline);
}

void pipeline_when_idle(struct pipeline *pipeline, void (*drained)(void *context), void *context)
{
    pipeline->drained = drained;
    pipeline->drained_context = context;
    tell_if_idle(pipeline);
}

/* ---- views ---------------------------------------------------------------------------------- */

uint32_t pipeline_unfinished(const struct pipeline *pipeline)
{
    size_t total = 0;
    for (enum stage stage = 0; stage < STAGE_ACK; stage++)
        total += pipeline->stages[stage].length;
    return (uint32_t)total;
}

uint32_t pipeline_inflight(const struct pipeline *pipeline)
{
    return pipeline_unfinished(pipeline) + (uint32_t)pipeline->stages[STAGE_ACK].length +
           (uint32_t)pipeline->zombies.length;
}

uint32_t pipeline_zombies(const struct pipeline *pipeline)
{
    return (uint32_t)pipeline->zombies.length;
}

uint32_t pipeline_waiting(const struct pipeline *pipeline)
{
    return (uint32_t)pipeline->stages[STAGE_ADMIT].length;
}

double pipeline_oldest_s(const struct pipeline *pipeline)
{
    uint64_t now = clock_now_ns(), oldest = now;
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++) {
        list_each (node, &pipeline->stages[stage]) {
            const struct work *work = container_of(node, struct work, node);
            if (work->fetched_ns < oldest)
                oldest = work->fetched_ns;
        }
    }
    return clock_ms(oldest, now) / 1e3;
}

bool pipeline_healthy(const struct pipeline *pipeline)
{
    /* Twice the grace: a worker that hangs is replaced after once. */
    double grace_s = 2 * pipeline->parts.options->hang_grace_s + 1;
    uint64_t now = clock_now_ns();
    for (enum stage stage = 0; stage < STAGE_ACK; stage++) {
        list_each (node, &pipeline->stages[stage]) {
            const struct work *work = container_of(node, struct work, node);
            if (now > clock_after_s(work->deadline_ns, grace_s))
                return false;
        }
    }
    return true;
}

/* ---- life ----------------------------------------------------------------------------------- */

struct pipeline *pipeline_create(const struct pipeline_parts *parts)
{
    const struct options *options = parts->options;
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (!pipeline)
        return NULL;
    pipeline->parts = *parts;
    list_init(&pipeline->free);
    list_init(&pipeline->zombies);
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        list_init(&pipeline->stages[stage]);
    uv_timer_init(parts->loop, &pipeline->tick);
    pipeline->tick.data = pipeline;
    uv_timer_start(&pipeline->tick, on_tick, TICK_MS, TICK_MS);
    pipeline->codec_bytes_max = options->host_bytes / 2;
    pipeline->file_pool = pool_create("files", options->host_bytes / 2, POOL_SEGMENT_BYTES,
                                      &pool_backend_pages);
    pipeline->works = calloc(options->inflight, sizeof *pipeline->works);
    if (!pipeline->file_pool || !pipeline->works)
        goto out;
    for (uint64_t i = 0; i < options->inflight; i++)
        list_push(&pipeline->free, &pipeline->works[i].node);
    /* The first job shall not pay for the pool's first pages. */
    struct pool_block first;
    if (pool_take(pipeline->file_pool, 1, &first, NULL))
        pool_give(pipeline->file_pool, &first);
    return pipeline;

out:
    pipeline_stop(pipeline);
    uv_run(parts->loop, UV_RUN_NOWAIT); /* closes the timer */
    pipeline_destroy(pipeline);
    return NULL;
}

void pipeline_stop(struct pipeline *pipeline)
{
    uv_close((uv_handle_t *)&pipeline->tick, NULL);
}

void pipeline_destroy(struct pipeline *pipeline)
{
    if (!pipeline)
        return;
    pool_destroy(pipeline->file_pool);
    free(pipeline->works);
    free(pipeline);
}
