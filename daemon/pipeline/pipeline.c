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
static_assert(sizeof(struct work) + JOB_NODES_MAX * NODE_BYTES + PLAN_KEPT_BYTES + ICC_KEPT_BYTES +
                      QUEUE_BYTES <= HEAP_JOB_BYTES,
              "a job that waits must fit its part of the ceiling");
static_assert(sizeof(struct work) + JOB_NODES_MAX * NODE_BYTES +
                      (JOB_OUTPUTS_MAX + 1) * (2 * ERROR_TEXT_MAX + 256) <= HEAP_JOB_BYTES,
              "so must one whose result waits, which has an error for each output at most");

/* ---- the stages ----------------------------------------------------------------------------- */

static void enter_admit(struct work *work);
static void enter_on_worker(struct work *work);
static void enter_gpu(struct work *work);

/* Of the errands that wait for a worker the one nearest to its end goes first. */
const struct stage_row stage_table[STAGE_COUNT] = {
    [STAGE_ASK] = {work_enter_ask, NULL, 0},
    [STAGE_READ] = {reads_enter, work_read, 0},
    [STAGE_ADMIT] = {enter_admit, NULL, 0},
    [STAGE_DECODE] = {enter_on_worker, work_decode, 1},
    [STAGE_GPU] = {enter_gpu, work_compute, 2},
    [STAGE_ENCODE] = {enter_on_worker, work_encode, 3},
    [STAGE_ACK] = {work_enter_ack, NULL, 0},
};

void pipeline_enter(struct work *work, enum stage stage)
{
    struct pipeline *pipeline = work->pipeline;
    work->entered_ns = clock_now_ns();
    if (stage > STAGE_ADMIT)
        pipeline->moved_ns = work->entered_ns;
    work->stage = stage;
    atomic_store(&work->at, stage);
    list_push(&pipeline->stages[stage], &work->node);
    fault_point("enter", stage_name(stage), work->job.id);
    stage_table[stage].enter(work);
}

void pipeline_leave(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    list_remove(&pipeline->stages[work->stage], &work->node);
    if (work->stage == STAGE_READ && work->refused)
        pipeline->read_stalled = false; /* the next one may need less */
    if (work->stage == STAGE_ADMIT && work->aside)
        reads_recall(pipeline); /* its input was in the way */
    work->refused = work->aside = false;
}

void pipeline_move(struct work *work, enum stage stage)
{
    pipeline_leave(work);
    pipeline_enter(work, stage);
}

void work_release(struct work *work)
{
    reads_release(work);
    work_drop_plan(work);
    admission_release(work);
}

void work_drop_results(struct work *work)
{
    for (size_t i = 0; i < work->job.output_count; i++) {
        free(work->outputs[i].value.value);
        work->outputs[i].value = (struct queue_value){0};
        cJSON_Delete(work->outputs[i].values);
        work->outputs[i].values = NULL;
    }
}

void pipeline_recycle(struct work *work, struct list *from)
{
    struct pipeline *pipeline = work->pipeline;
    work_release(work);
    if (work->traced)
        witness_end(work);
    work_drop_results(work);
    admission_settle(work);
    free(work->repeat);
    work->repeat = NULL;
    image_info_clear(&work->info);
    job_clear(&work->job);
    pipeline->text_bytes -= work->text_bytes;
    list_remove(from, &work->node);
    list_push(&pipeline->free, &work->node);
}

void pipeline_note_length(struct pipeline *pipeline, const struct work *work)
{
    double ms = 0;
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        if (stage != STAGE_ADMIT && work->ms[stage] > 0)
            ms += work->ms[stage];
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

void pipeline_count_text(struct work *work, size_t bytes)
{
    work->text_bytes += bytes;
    work->pipeline->text_bytes += bytes;
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

static void tell_if_idle(struct pipeline *pipeline)
{
    if (!pipeline->drained || pipeline_unfinished(pipeline) > 0)
        return;
    void (*drained)(void *) = pipeline->drained;
    pipeline->drained = NULL;
    drained(pipeline->drained_context);
}

bool work_lacks_disk(const struct work *work)
{
    bool has_file = false;
    for (size_t i = 0; i < work->job.output_count; i++)
        has_file |= work->job.outputs[i].place.path != NULL;
    return has_file && work->pipeline->disk.failed;
}

/* A work that could not write for want of a disk goes back, and so does one that is still to. */
static void check_disk(struct work *work, bool is_to_write)
{
    if (work->disk_error.status != STATUS_OK) {
        work->give_back = true;
        disk_fail(&work->pipeline->disk, &work->disk_error);
    } else if (is_to_write && work->error.status == STATUS_OK && work_lacks_disk(work)) {
        work->give_back = true;
    }
}

void pipeline_advance(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    enum stage next = work->stage + 1;
    if (work->stage == STAGE_DECODE) {
        reads_release(work);
        admission_keep_encoder(work);
    }
    if (pipeline->failed && next <= STAGE_GPU && work->error.status == STATUS_OK)
        work->give_back = true;
    if (atomic_load(&work->cancelled))
        work_end_cancelled(work);
    else
        check_disk(work, next <= STAGE_ENCODE);
    if (work->error.status != STATUS_OK || work->give_back || atomic_load(&work->lost))
        next = STAGE_ACK;
    pipeline_move(work, next);
    pipeline_pump(pipeline);
}

/* ---- admit ---------------------------------------------------------------------------------- */

static void enter_admit(struct work *work)
{
    work->admit_ns = clock_now_ns();
    admission_wait(work);
}

static bool admit(struct work *work)
{
    if (!admission_try(work))
        return false;
    uint64_t now_ns = clock_now_ns();
    work->ms[STAGE_ADMIT] = clock_ms(work->admit_ns, now_ns);
    if (work->traced)
        witness_admit(work, now_ns);
    pipeline_move(work, work->error.status == STATUS_OK ? STAGE_DECODE : STAGE_ACK);
    return true;
}

/* One that was refused because abandoned jobs have the memory is no reason for the next to wait. */
static bool lets_pass(struct work *work)
{
    if (!work->aside && !list_empty(&work->pipeline->zombies))
        work->aside = admission_step_aside(work);
    return work->aside;
}

/* Those that stepped aside have their places in the line again. */
static void recall_admits(struct pipeline *pipeline)
{
    list_each (node, &pipeline->stages[STAGE_ADMIT]) {
        struct work *work = container_of(node, struct work, node);
        if (work->aside)
            admission_wait(work);
        work->aside = false;
    }
}

static void pump_admits(struct pipeline *pipeline)
{
    list_each_safe (node, after, &pipeline->stages[STAGE_ADMIT]) {
        struct work *work = container_of(node, struct work, node);
        if (!admit(work) && !lets_pass(work))
            return;
    }
}

void pipeline_pump(struct pipeline *pipeline)
{
    pump_admits(pipeline);
    reads_pump(pipeline);
    pipeline_offer_places(pipeline);
    tell_if_idle(pipeline);
}

/* ---- workers and engine --------------------------------------------------------------------- */

void work_start_errand(struct work *work)
{
    work->out = true;
    work->errand.priority = stage_table[work->stage].priority;
    workers_submit(work->pipeline->parts.workers, &work->errand);
}

/* A work comes back from a worker or from the engine; false: it had been answered long ago. */
static bool take_back(struct work *work)
{
    work->out = false;
    if (!work->abandoned)
        return true;
    pipeline_recycle(work, &work->pipeline->zombies);
    reads_recall(work->pipeline);
    recall_admits(work->pipeline);
    pipeline_pump(work->pipeline);
    return false;
}

static void on_task_done(struct engine_task *task)
{
    struct work *work = container_of(task, struct work, task);
    if (work->traced)
        witness_task(work);
    if (!take_back(work))
        return;
    work->error = task->error;
    /* A fault of the device, or of a neighbour on it, is not charged to this job. */
    if (engine_fault(work->pipeline->parts.engine) && !task->on_device)
        work->give_back = work->error.status == STATUS_GPU_FAILED;
    pipeline_advance(work);
}

/* false: there is nothing to compute. */
static bool begin_compute(struct work *work)
{
    work->reached_engine = true;
    work->computed = !work->plan.idle;
    work->task = (struct engine_task){
        .plan = &work->plan,
        .memory = &work->memory,
        .deadline_ns = work->deadline_ns,
        .done = on_task_done,
    };
    return work->computed;
}

/* On a worker: the stage that the work is at. */
static void run_stage(struct work *work, struct worker_tools *tools)
{
    enum stage stage = atomic_load(&work->at);
    uint64_t begin_ns = clock_now_ns();
    work_start_clock(work);
    fault_point("run", stage_name(stage), work->job.id);
    stage_table[stage].run(work, tools);
    uint64_t end_ns = clock_now_ns();
    double before = work->ms[stage] > 0 ? work->ms[stage] : 0; /* a read that waited for room */
    work->ms[stage] = before + clock_ms(begin_ns, end_ns);
    if (work->traced)
        witness_run(work, tools->number, begin_ns, end_ns);
}

/* On a worker: the work comes to the next stage, which this worker carries out as well. */
static void carry_to(struct work *work, enum stage stage)
{
    atomic_store(&work->at, stage);
    fault_point("enter", stage_name(stage), work->job.id);
}

static bool is_small(const struct work *work)
{
    return admission_need(work) <= SMALL_JOB_BYTES;
}

/* On a worker that has read: a small job passes admission here if nobody waits there. Any other
 * one is in the line from now on. */
static bool carry_through_admission(struct work *work)
{
    if (!work->carried) {
        admission_wait(work);
        return false;
    }
    fault_point("enter", stage_name(STAGE_ADMIT), work->job.id);
    if (!admission_pass(work) || work->error.status != STATUS_OK)
        return false;
    work->ms[STAGE_ADMIT] = 0;
    if (work->traced)
        witness_carry(work, clock_now_ns());
    carry_to(work, STAGE_DECODE);
    return true;
}

/* On a worker that has carried a stage out: whether it goes on to the next one itself, without a
 * way over the loop. It must not where the loop has something to decide. */
static bool carry_on(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    enum stage stage = atomic_load(&work->at);
    if (work->error.status != STATUS_OK || work->again || stage == STAGE_ENCODE ||
        atomic_load(&work->lost) || atomic_load(&work->cancelled) ||
        atomic_load(&pipeline->failed))
        return false;
    if (stage == STAGE_READ) {
        work->carried = engine_is_synchronous(pipeline->parts.engine) && is_small(work);
        return carry_through_admission(work);
    }
    if (!work->carried)
        return false;
    if (clock_now_ns() >= work->deadline_ns) {
        work_set_late(work);
        return false;
    }
    carry_to(work, stage + 1);
    if (stage == STAGE_DECODE && !begin_compute(work))
        carry_to(work, STAGE_ENCODE);
    return true;
}

void work_run_errand(struct errand *errand, struct worker_tools *tools)
{
    struct work *work = container_of(errand, struct work, errand);
    do
        run_stage(work, tools);
    while (carry_on(work));
    bool carried_out = work->carried && atomic_load(&work->at) == STAGE_ENCODE;
    if (carried_out)
        work_drop_plan(work);
    /* Its memory is free at once, though the loop may hear of it later. */
    errand->patient = carried_out && !admission_release(work);
}

/* A worker has carried the work on: it goes to the list of the stage that it is at. */
static void catch_up(struct work *work)
{
    enum stage at = atomic_load(&work->at);
    if (work->traced)
        witness_back(work);
    pipeline_leave(work);
    list_push(&work->pipeline->stages[at], &work->node);
    work->stage = at;
}

void work_errand_done(struct errand *errand)
{
    struct work *work = container_of(errand, struct work, errand);
    if (!take_back(work))
        return;
    if (work->stage == STAGE_READ && work->again && !atomic_load(&work->cancelled) &&
        !atomic_load(&work->lost) && !work->pipeline->failed) {
        reads_refuse(work);
        return;
    }
    if (!work->loaded)
        reads_end_key(work);
    catch_up(work);
    pipeline_advance(work);
}

static void enter_on_worker(struct work *work)
{
    work_start_errand(work);
}

static void enter_gpu(struct work *work)
{
    struct pipeline *pipeline = work->pipeline;
    if (!begin_compute(work)) {
        pipeline_advance(work);
        return;
    }
    if (engine_is_synchronous(pipeline->parts.engine)) {
        work_start_errand(work);
        return;
    }
    work->out = true;
    work->task.alone = work->lease->alone;
    engine_submit(pipeline->parts.engine, &work->task);
}

/* ---- from outside --------------------------------------------------------------------------- */

struct queue_events pipeline_events(struct pipeline *pipeline)
{
    return (struct queue_events){
        .context = pipeline, .leased = intake_leased, .lost = intake_lost, .settled = ack_settled,
        .start_decided = intake_start_decided};
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
    tell_if_idle(pipeline);
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
        waiting += is_short || container_of(node, struct work, node)->aside;
    list_each (node, &pipeline->stages[STAGE_READ]) {
        const struct work *work = container_of(node, struct work, node);
        waiting += !work->out && !work->reading;
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
            const struct work *work = container_of(node, struct work, node);
            if (work->fetched_ns < oldest)
                oldest = work->fetched_ns;
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
    pipeline->works = calloc(options->inflight + parts->ahead_max, sizeof *pipeline->works);
    if (!pipeline->file_pool || !pipeline->works)
        goto out;
    for (uint64_t i = 0; i < options->inflight + parts->ahead_max; i++)
        list_push(&pipeline->free, &pipeline->works[i].node);
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
static void recycle_rest(struct pipeline *pipeline)
{
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        list_each_safe (node, after, &pipeline->stages[stage])
            pipeline_recycle(container_of(node, struct work, node), &pipeline->stages[stage]);
}

void pipeline_destroy(struct pipeline *pipeline)
{
    if (!pipeline)
        return;
    recycle_rest(pipeline);
    pool_destroy(pipeline->file_pool);
    admission_close(&pipeline->admission);
    free(pipeline->works);
    free(pipeline);
}
