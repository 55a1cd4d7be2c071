#include "daemon/pipeline/pipeline.h"

#include <inttypes.h>
#include <stdlib.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "daemon/pipeline/fault.h"
#include "daemon/pipeline/pipeline_impl.h"

/* How often deadlines are looked at while jobs are in flight. */
#define TICK_MS 100

/* A node of a job's tree, as malloc has it: with its name and the overhead of both. */
#define NODE_BYTES 192
#define QUEUE_BYTES (2 * KIB) /* what the queue keeps of a lease, and of a read */
static_assert(sizeof(struct job_run) + JOB_NODES_MAX * NODE_BYTES + PLAN_KEPT_BYTES +
                      ICC_KEPT_BYTES + QUEUE_BYTES <= HEAP_JOB_BYTES,
              "a job that waits must fit its part of the ceiling");
static_assert(sizeof(struct job_run) + JOB_NODES_MAX * NODE_BYTES +
                      (JOB_OUTPUTS_MAX + 1) * (2 * ERROR_TEXT_MAX + 256) <= HEAP_JOB_BYTES,
              "so must one whose result waits, which has an error for each output at most");

/* ---- the stages ----------------------------------------------------------------------------- */

static void enter_on_worker(struct job_run *run);
static void enter_gpu(struct job_run *run);

/* Of the tasks that wait for a worker the one nearest to its end goes first. */
const struct stage_row stage_table[STAGE_COUNT] = {
    [STAGE_ASK] = {job_run_enter_ask, NULL, 0},
    [STAGE_READ] = {reads_enter, job_run_read, 0},
    [STAGE_ADMIT] = {admission_wait, NULL, 0},
    [STAGE_DECODE] = {enter_on_worker, job_run_decode, 1},
    [STAGE_GPU] = {enter_gpu, job_run_compute, 2},
    [STAGE_ENCODE] = {enter_on_worker, job_run_encode, 3},
    [STAGE_ACK] = {job_run_enter_ack, NULL, 0},
};

/* It no longer stands in the way of others in the line of its stage. */
static void leave_line(struct job_run *run)
{
    if (run->stage == STAGE_READ && run->input.turn != TURN_IN_ORDER)
        run->pipeline->read_stalled = false; /* the next one may need less */
    if (run->stage == STAGE_ADMIT && run->input.turn == TURN_ASIDE)
        reads_recall(run->pipeline); /* its input was in the way */
    run->input.turn = TURN_IN_ORDER;
}

void pipeline_move(struct job_run *run, enum stage stage)
{
    struct pipeline *pipeline = run->pipeline;
    leave_line(run);
    run->timing.entered_ns = clock_now_ns();
    if (stage > STAGE_ADMIT)
        pipeline->moved_ns = run->timing.entered_ns;
    job_run_move(run, stage, OWNER_LOOP);
    fault_point("enter", stage_name(stage), run->job.id);
    stage_table[stage].enter(run);
}

void pipeline_end(struct job_run *run, enum outcome outcome)
{
    job_run_decide(run, outcome);
    pipeline_move(run, STAGE_ACK);
}

void pipeline_make_zombie(struct job_run *run)
{
    leave_line(run);
    job_run_move(run, run->stage, OWNER_ZOMBIE);
}

void pipeline_recycle(struct job_run *run)
{
    job_run_clear(run);
    job_run_move(run, STAGE_ASK, OWNER_NONE);
}

void pipeline_note_length(struct pipeline *pipeline, const struct job_run *run)
{
    double ms = 0;
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        if (stage != STAGE_ADMIT && run->timing.ms[stage] > 0)
            ms += run->timing.ms[stage];
    pipeline->job_ms = pipeline->job_ms < 0 ? ms : pipeline->job_ms + (ms - pipeline->job_ms) / 8;
}

/* How many more than `inflight` the workers would end in INFLIGHT_AHEAD_MS. */
static size_t places_ahead(const struct pipeline *pipeline)
{
    double at_most = pipeline->parts.ahead_max;
    double all_ms = (double)pipeline->parts.options->workers * INFLIGHT_AHEAD_MS;
    if (pipeline->job_ms < 0 || all_ms < pipeline->job_ms)
        return 0;
    return (size_t)(all_ms < at_most * pipeline->job_ms ? all_ms / pipeline->job_ms : at_most);
}

void pipeline_count_text(struct job_run *run, size_t bytes)
{
    run->text_bytes += bytes;
    run->pipeline->text_bytes += bytes;
}

/* How many jobs may come, of whatever size. */
static size_t places_for_texts(const struct pipeline *pipeline)
{
    if (pipeline->text_bytes >= JOB_TEXTS_BYTES)
        return 0;
    return (JOB_TEXTS_BYTES - pipeline->text_bytes) / JOB_TEXT_BYTES_MAX;
}

void pipeline_offer_places(struct pipeline *pipeline)
{
    if (!pipeline->queue)
        return;
    bool open = !pipeline->paused && !pipeline->failed && !pipeline->disk.failed;
    size_t kept = pipeline->parts.ahead_max - places_ahead(pipeline);
    size_t free = pipeline->free.length > kept ? pipeline->free.length - kept : 0;
    size_t texts = places_for_texts(pipeline);
    queue_set_places(pipeline->queue, open ? (uint32_t)(free < texts ? free : texts) : 0);
}

static void notify_if_idle(struct pipeline *pipeline)
{
    if (!pipeline->drained || pipeline_unfinished(pipeline) > 0)
        return;
    void (*drained)(void *) = pipeline->drained;
    pipeline->drained = NULL;
    drained(pipeline->drained_context);
}

bool job_run_lacks_disk(const struct job_run *run)
{
    bool has_file = false;
    for (size_t i = 0; i < run->job.output_count; i++)
        has_file |= run->job.outputs[i].place.path != NULL;
    return has_file && run->pipeline->disk.failed;
}

/* A job that could not write because of the disk goes back, and so does one that is still to. */
static bool lacks_disk(struct job_run *run, enum stage next)
{
    if (run->disk_error.status == STATUS_OK)
        return next <= STAGE_ENCODE && run->error.status == STATUS_OK && job_run_lacks_disk(run);
    disk_fail(&run->pipeline->disk, &run->disk_error);
    return true;
}

void pipeline_advance(struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    enum stage next = run->stage + 1;
    if (run->stage == STAGE_DECODE) {
        reads_release(run);
        admission_keep_encoder(run);
    }
    bool goes_back = pipeline->failed && next <= STAGE_GPU && run->error.status == STATUS_OK;
    if (run->outcome == OUTCOME_CANCELLED)
        job_run_end_cancelled(run);
    else
        goes_back |= lacks_disk(run, next);
    if (goes_back && run->outcome != OUTCOME_RETURNED)
        job_run_decide(run, OUTCOME_RETURNED);
    if (run->error.status != STATUS_OK || !job_run_is_open(run))
        next = STAGE_ACK;
    pipeline_move(run, next);
    pipeline_pump(pipeline);
}

/* ---- admit ---------------------------------------------------------------------------------- */

static bool admit(struct job_run *run)
{
    if (!admission_try(run))
        return false;
    uint64_t now_ns = clock_now_ns();
    run->timing.ms[STAGE_ADMIT] = clock_ms(run->timing.entered_ns, now_ns);
    trace_hooks_admit(run, now_ns);
    pipeline_move(run, run->error.status == STATUS_OK ? STAGE_DECODE : STAGE_ACK);
    return true;
}

/* One that was refused because abandoned jobs have the memory is no reason for the next to wait. */
static bool lets_pass(struct job_run *run)
{
    enum turn *turn = &run->input.turn;
    if (*turn != TURN_ASIDE && !list_empty(&run->pipeline->zombies) && admission_step_aside(run))
        *turn = TURN_ASIDE;
    return *turn == TURN_ASIDE;
}

/* Those that stepped aside have their places in the line again. */
static void recall_admits(struct pipeline *pipeline)
{
    list_each (node, &pipeline->stages[STAGE_ADMIT]) {
        struct job_run *run = container_of(node, struct job_run, node);
        if (run->input.turn == TURN_ASIDE)
            admission_wait(run);
        run->input.turn = TURN_IN_ORDER;
    }
}

static void pump_admits(struct pipeline *pipeline)
{
    list_each_safe (node, after, &pipeline->stages[STAGE_ADMIT]) {
        struct job_run *run = container_of(node, struct job_run, node);
        if (!admit(run) && !lets_pass(run))
            return;
    }
}

void pipeline_pump(struct pipeline *pipeline)
{
    pump_admits(pipeline);
    reads_pump(pipeline);
    pipeline_offer_places(pipeline);
    notify_if_idle(pipeline);
}

/* ---- workers and engine --------------------------------------------------------------------- */

void job_run_start_task(struct job_run *run)
{
    job_run_move(run, run->stage, OWNER_WORKER);
    run->worker_task.priority = stage_table[run->stage].priority;
    workers_submit(run->pipeline->parts.workers, &run->worker_task);
}

/* A job comes back from a worker or from the engine; false: it had been answered long ago. */
static bool take_back(struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    if (run->owner != OWNER_ZOMBIE)
        return true;
    pipeline_recycle(run);
    reads_recall(pipeline);
    recall_admits(pipeline);
    pipeline_pump(pipeline);
    return false;
}

static void on_task_done(struct engine_task *task)
{
    struct job_run *run = container_of(task, struct job_run, engine_task);
    trace_hooks_task(run);
    if (!take_back(run))
        return;
    job_run_move(run, STAGE_GPU, OWNER_LOOP);
    run->error = task->error;
    /* A fault of the device, or of a neighbour on it, is not charged to this job. */
    if (engine_fault(run->pipeline->parts.engine) && !task->on_device &&
        run->error.status == STATUS_GPU_FAILED)
        job_run_decide(run, OUTCOME_RETURNED);
    pipeline_advance(run);
}

/* false: there is nothing to compute. */
static bool begin_compute(struct job_run *run)
{
    run->engine_task = (struct engine_task){
        .plan = &run->plan,
        .memory = &run->reserved.memory,
        .deadline_ns = run->timing.deadline_ns,
        .done = on_task_done,
    };
    return !run->plan.idle;
}

/* On a worker: the stage that the job is at. */
static void run_stage(struct job_run *run, struct worker_tools *tools)
{
    enum stage stage = atomic_load(&run->at);
    uint64_t begin_ns = clock_now_ns();
    job_run_start_clock(run);
    fault_point("run", stage_name(stage), run->job.id);
    stage_table[stage].run(run, tools);
    uint64_t end_ns = clock_now_ns();
    double *ms = &run->timing.ms[stage];
    *ms = (*ms > 0 ? *ms : 0) + clock_ms(begin_ns, end_ns); /* a read that found no room adds up */
    trace_hooks_run(run, tools->number, begin_ns, end_ns);
}

/* On a worker: the job comes to the next stage, which this worker carries out as well. */
static void carry_to(struct job_run *run, enum stage stage)
{
    atomic_store(&run->at, stage);
    fault_point("enter", stage_name(stage), run->job.id);
}

static bool is_small(const struct job_run *run)
{
    return admission_need(run) <= SMALL_JOB_BYTES;
}

/* On a worker that has read: a small job passes admission here if nobody waits there. Any other
 * one is in the line from now on. */
static bool carry_through_admission(struct job_run *run)
{
    if (!engine_is_synchronous(run->pipeline->parts.engine) || !is_small(run)) {
        admission_wait(run);
        return false;
    }
    fault_point("enter", stage_name(STAGE_ADMIT), run->job.id);
    if (!admission_pass(run) || run->error.status != STATUS_OK)
        return false;
    run->timing.ms[STAGE_ADMIT] = 0;
    trace_hooks_carry(run);
    carry_to(run, STAGE_DECODE);
    return true;
}

/* On a worker that has carried out a stage of its task: whether it goes on to the next stage
 * itself, without a way over the loop. It must not if the loop has something to decide. */
static bool carry_on(struct job_run *run, enum stage first)
{
    enum stage stage = atomic_load(&run->at);
    if (run->error.status != STATUS_OK || stage == STAGE_ENCODE || !job_run_is_open(run) ||
        atomic_load(&run->pipeline->failed))
        return false;
    if (stage == STAGE_READ)
        return !job_run_lacks_room(run) && carry_through_admission(run);
    if (first != STAGE_READ)
        return false;
    if (clock_now_ns() >= run->timing.deadline_ns) {
        job_run_set_late(run);
        return false;
    }
    carry_to(run, stage + 1);
    if (stage == STAGE_DECODE && !begin_compute(run))
        carry_to(run, STAGE_ENCODE);
    return true;
}

void job_run_task_run(struct worker_task *task, struct worker_tools *tools)
{
    struct job_run *run = container_of(task, struct job_run, worker_task);
    enum stage first = atomic_load(&run->at);
    do
        run_stage(run, tools);
    while (carry_on(run, first));
    bool carried_out = first == STAGE_READ && atomic_load(&run->at) == STAGE_ENCODE;
    if (carried_out)
        job_run_drop_plan(run);
    /* Its memory is free at once, though the loop may hear of it later. */
    task->patient = carried_out && !admission_release(run);
}

void job_run_task_done(struct worker_task *task)
{
    struct job_run *run = container_of(task, struct job_run, worker_task);
    if (!take_back(run))
        return;
    if (run->stage == STAGE_READ && job_run_lacks_room(run) && job_run_is_open(run) &&
        !run->pipeline->failed) {
        job_run_move(run, STAGE_READ, OWNER_LOOP);
        reads_refuse(run);
        return;
    }
    if (!run->input.loaded)
        reads_end_key(run);
    trace_hooks_back(run);
    leave_line(run);
    job_run_move(run, atomic_load(&run->at), OWNER_LOOP); /* a worker may have carried it on */
    pipeline_advance(run);
}

static void enter_on_worker(struct job_run *run)
{
    job_run_start_task(run);
}

static void enter_gpu(struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    if (!begin_compute(run)) {
        pipeline_advance(run);
        return;
    }
    if (engine_is_synchronous(pipeline->parts.engine)) {
        job_run_start_task(run);
        return;
    }
    job_run_move(run, STAGE_GPU, OWNER_ENGINE);
    run->engine_task.alone = run->lease->alone;
    engine_submit(pipeline->parts.engine, &run->engine_task);
}

/* ---- from outside --------------------------------------------------------------------------- */

struct queue_events pipeline_events(struct pipeline *pipeline)
{
    return (struct queue_events){
        .context = pipeline, .leased = lease_events_leased, .lost = lease_events_lost,
        .settled = ack_settled, .start_decided = lease_events_start_decided};
}

void pipeline_attach(struct pipeline *pipeline, struct queue *queue)
{
    pipeline->queue = queue;
    pipeline_offer_places(pipeline);
}

void pipeline_pause(struct pipeline *pipeline, bool paused)
{
    pipeline->paused = paused;
    pipeline_offer_places(pipeline);
}

void pipeline_when_idle(struct pipeline *pipeline, void (*drained)(void *context), void *context)
{
    pipeline->drained = drained;
    pipeline->drained_context = context;
    notify_if_idle(pipeline);
}

const char *pipeline_disk_error(const struct pipeline *pipeline)
{
    return pipeline->disk.failed ? pipeline->disk.error.text : NULL;
}

void pipeline_suspect_disk(struct pipeline *pipeline)
{
    disk_suspect(&pipeline->disk);
}

bool pipeline_tries_disk(const struct pipeline *pipeline)
{
    return pipeline->disk.trying;
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
    bool is_short = admission_is_short(&pipeline->admission);
    uint32_t waiting = 0;
    list_each (node, &pipeline->stages[STAGE_ADMIT])
        waiting += is_short || container_of(node, struct job_run, node)->input.turn == TURN_ASIDE;
    list_each (node, &pipeline->stages[STAGE_READ]) {
        const struct job_run *run = container_of(node, struct job_run, node);
        waiting += run->owner == OWNER_LOOP && !run->input.reading;
    }
    return waiting;
}

uint32_t pipeline_in_stage(const struct pipeline *pipeline, enum stage stage)
{
    return (uint32_t)pipeline->stages[stage].length;
}

struct pool_usage pipeline_file_usage(const struct pipeline *pipeline)
{
    return pool_usage(pipeline->file_pool);
}

struct pool_usage pipeline_codec_usage(const struct pipeline *pipeline)
{
    return admission_usage(&pipeline->admission);
}

double pipeline_oldest_s(const struct pipeline *pipeline)
{
    uint64_t now = clock_now_ns(), oldest = now;
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++) {
        list_each (node, &pipeline->stages[stage]) {
            const struct job_run *run = container_of(node, struct job_run, node);
            if (run->timing.fetched_ns < oldest)
                oldest = run->timing.fetched_ns;
        }
    }
    return clock_ms(oldest, now) / 1e3;
}

/* ---- life ----------------------------------------------------------------------------------- */

/* Who asked for so many jobs gets them. Else each worker and stream has one, and every second of
 * them finds another one ready. */
static void open_admission(struct pipeline *pipeline)
{
    const struct pipeline_parts *parts = &pipeline->parts;
    size_t now = parts->options->workers + engine_slots(parts->engine), most = now + (now + 1) / 2;
    size_t host = parts->options->host_bytes;
    if (parts->ahead_max == 0)
        now = most = parts->options->inflight;
    admission_open(&pipeline->admission, parts->engine,
                   host - host / HOST_FILES_PART - host / HOST_KEPT_PART, now, most);
}

static void on_disk_changed(void *context)
{
    struct pipeline *pipeline = context;
    if (pipeline->disk.failed)
        pipeline_give_back_files(pipeline);
    pipeline_pump(pipeline);
    pipeline->parts.disk_changed(pipeline->parts.context);
}

static void watch_disk(struct pipeline *pipeline)
{
    const struct pipeline_parts *parts = &pipeline->parts;
    struct disk_parts of_disk = {
        .loop = parts->loop,
        .files = parts->files,
        .workers = parts->workers,
        .output_root = parts->options->output_root,
        .changed = on_disk_changed,
        .context = pipeline,
    };
    disk_open(&pipeline->disk, &of_disk);
}

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
    uv_timer_start(&pipeline->tick, pipeline_on_tick, TICK_MS, TICK_MS);
    open_admission(pipeline);
    watch_disk(pipeline);
    pipeline->file_pool = pool_create("files", options->host_bytes / HOST_FILES_PART,
                                      POOL_SEGMENT_BYTES, &pool_backend_pages);
    pipeline->job_ms = -1;
    pipeline->runs = calloc(options->inflight + parts->ahead_max, sizeof *pipeline->runs);
    if (!pipeline->file_pool || !pipeline->runs)
        goto out;
    for (uint64_t i = 0; i < options->inflight + parts->ahead_max; i++)
        list_push(&pipeline->free, &pipeline->runs[i].node);
    /* The first job shall not pay for the pool's first pages. */
    struct pool_block first;
    if (pool_take(pipeline->file_pool, 1, &first, NULL))
        pool_give(pipeline->file_pool, &first);
    return pipeline;

out:
    pipeline_stop(pipeline);
    uv_run(parts->loop, UV_RUN_NOWAIT); /* closes its handles */
    pipeline_destroy(pipeline);
    return NULL;
}

void pipeline_stop(struct pipeline *pipeline)
{
    uv_close((uv_handle_t *)&pipeline->tick, NULL);
    disk_close(&pipeline->disk);
}

/* Jobs whose results Redis never acknowledged. */
static void clear_rest(struct pipeline *pipeline)
{
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        list_each (node, &pipeline->stages[stage])
            job_run_clear(container_of(node, struct job_run, node));
}

void pipeline_destroy(struct pipeline *pipeline)
{
    if (!pipeline)
        return;
    clear_rest(pipeline);
    pool_destroy(pipeline->file_pool);
    admission_close(&pipeline->admission);
    free(pipeline->runs);
    free(pipeline);
}
