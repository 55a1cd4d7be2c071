/* stages.c - moves jobs from stage to stage, and submits them to the workers and the engine. */
#include "conf/clock.h"
#include "daemon/pipeline/pipeline_impl.h"

static void enter_gpu(struct job_run *run);
static void on_computed(struct engine_task *task);

/* Priorities: the job that is closest to its end runs first. */
const struct stage_row stage_table[STAGE_COUNT] = {
    [STAGE_ASK] = {job_run_enter_ask, NULL, 0},
    [STAGE_READ] = {reads_enter, job_run_read, 0},
    [STAGE_ADMIT] = {admission_wait, NULL, 0},
    [STAGE_DECODE] = {job_run_start_task, job_run_decode, 1},
    [STAGE_GPU] = {enter_gpu, job_run_compute, 2},
    [STAGE_ENCODE] = {job_run_start_task, job_run_encode, 3},
    [STAGE_ACK] = {job_run_enter_ack, NULL, 0},
};

/* ---- from one stage to another -------------------------------------------------------------- */

/* The job leaves its stage: jobs that wait for the same memory may be tried again. */
static void leave_line(struct job_run *run)
{
    if (run->stage == STAGE_READ && run->input.turn != TURN_IN_ORDER)
        run->pipeline->read_stalled = false; /* the next job may need less room */
    if (run->stage == STAGE_ADMIT && run->input.turn == TURN_ASIDE)
        reads_recall(run->pipeline); /* its input held memory that a read may wait for */
    run->input.turn = TURN_IN_ORDER;
}

void stages_move(struct job_run *run, enum stage stage)
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

void stages_end(struct job_run *run, enum outcome outcome)
{
    job_run_decide(run, outcome);
    stages_move(run, STAGE_ACK);
}

void stages_make_zombie(struct job_run *run)
{
    leave_line(run);
    job_run_move(run, run->stage, OWNER_ZOMBIE);
}

void stages_recycle(struct job_run *run)
{
    job_run_clear(run);
    job_run_move(run, STAGE_ASK, OWNER_NONE);
}

bool job_run_lacks_disk(const struct job_run *run)
{
    bool has_file = false;
    for (size_t i = 0; i < run->job.output_count; i++)
        has_file |= run->job.outputs[i].place.path != NULL;
    return has_file && run->pipeline->disk.failed;
}

/* Whether the job must return to the queue because of the disk: a write has failed, or would. */
static bool lacks_disk(struct job_run *run, enum stage next)
{
    if (run->disk_error.status == STATUS_OK)
        return next <= STAGE_ENCODE && run->error.status == STATUS_OK && job_run_lacks_disk(run);
    disk_fail(&run->pipeline->disk, &run->disk_error);
    return true;
}

void stages_advance(struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    enum stage next = run->stage + 1;
    if (run->stage == STAGE_DECODE)
        admission_keep_encoder(run);
    if (run->stage == STAGE_GPU ||
        (run->stage == STAGE_DECODE && run->input.decoder == CODEC_ON_HOST))
        reads_release(run); /* a device may decline the file */
    bool goes_back = pipeline->failed && next <= STAGE_GPU && run->error.status == STATUS_OK;
    if (run->outcome == OUTCOME_CANCELLED)
        job_run_end_cancelled(run);
    else
        goes_back |= lacks_disk(run, next);
    if (goes_back && run->outcome != OUTCOME_RETURNED)
        job_run_decide(run, OUTCOME_RETURNED);
    if (run->error.status != STATUS_OK || !job_run_is_open(run))
        next = STAGE_ACK;
    stages_move(run, next);
    pipeline_pump(pipeline);
}

/* ---- on a worker ---------------------------------------------------------------------------- */

static void run_stage(struct job_run *run, struct worker_tools *tools)
{
    enum stage stage = atomic_load(&run->at);
    uint64_t begin_ns = clock_now_ns();
    job_run_start_clock(run);
    fault_point("run", stage_name(stage), run->job.id);
    stage_table[stage].run(run, tools);
    uint64_t end_ns = clock_now_ns();
    double *ms = &run->timing.ms[stage];
    *ms = (*ms > 0 ? *ms : 0) + clock_ms(begin_ns, end_ns); /* a read may run several times */
    trace_hooks_run(run, tools->number, begin_ns, end_ns);
}

/* This worker goes on with the given stage. */
static void carry_to(struct job_run *run, enum stage stage)
{
    atomic_store(&run->at, stage);
    fault_point("enter", stage_name(stage), run->job.id);
}

/* After the read: admits a small job on this worker if the line is empty. Other jobs join it. */
static bool carry_through_admission(struct job_run *run)
{
    if (!engine_is_synchronous(run->pipeline->parts.engine) ||
        admission_need(run) > SMALL_JOB_BYTES) {
        admission_wait(run);
        return false;
    }
    fault_point("enter", stage_name(STAGE_ADMIT), run->job.id);
    if (!admission_pass(run) || run->error.status != STATUS_OK)
        return false;
    uint64_t now_ns = clock_now_ns();
    run->timing.ms[STAGE_ADMIT] = 0;
    trace_hooks_admit(run, now_ns, now_ns);
    carry_to(run, STAGE_DECODE);
    return true;
}

/* On a worker or the loop. false: the plan has no passes. */
static bool begin_compute(struct job_run *run)
{
    run->engine_task = (struct engine_task){
        .plan = &run->plan,
        .memory = &run->reserved.memory,
        .deadline_ns = run->timing.deadline_ns,
        .done = on_computed,
    };
    return !run->plan.idle;
}

/* After a stage: whether this worker goes on with the next stage without returning to the loop. It
 * returns if the loop must decide something. first: the stage at which the task started. */
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
    if (clock_now_ns() >= run->timing.deadline_ns) { /* uncovered: refusal */
        job_run_set_late(run, &run->error);
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
    /* The memory is released now, so the loop may handle the task later. */
    task->patient = carried_out && !admission_release(run);
}

/* ---- back on the loop ----------------------------------------------------------------------- */

/* A worker or the engine returns a job. false: it was a zombie, and its slot is free now. */
static bool take_back(struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    if (run->owner != OWNER_ZOMBIE)
        return true;
    stages_recycle(run);
    reads_recall(pipeline);
    admission_recall(pipeline);
    pipeline_pump(pipeline);
    return false;
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
    leave_line(run);
    job_run_move(run, atomic_load(&run->at), OWNER_LOOP);
    stages_advance(run);
}

/* Plans the job again, for the codecs of the host. Its input is still in memory. */
static void leave_device(struct job_run *run)
{
    run->input.declined = true;
    run->engine_task.plan = NULL;
    job_run_drop_plan(run);
    bool others_wait = admission_release(run);
    (void)others_wait; /* pipeline_pump tries them */
    stages_move(run, STAGE_READ);
    pipeline_pump(run->pipeline);
}

void stages_take_computed(struct engine_task *task)
{
    struct job_run *run = container_of(task, struct job_run, engine_task);
    trace_hooks_task(run);
    if (!take_back(run)) /* uncovered: gpu */
        return;
    job_run_move(run, STAGE_GPU, OWNER_LOOP);
    run->error = task->error;
    bool declined = run->error.status == STATUS_OK && route_was_declined(run);
    dispatch_return(&run->pipeline->dispatch, &run->charge, clock_now_ns(),
                    run->error.status == STATUS_OK && !declined);
    if (task->returned)
        job_run_decide(run, OUTCOME_RETURNED);
    if (declined && job_run_is_open(run))
        leave_device(run);
    else
        stages_advance(run);
}

/* ---- on a device's thread ------------------------------------------------------------------- */

static void on_computed(struct engine_task *task)
{
    struct job_run *run = container_of(task, struct job_run, engine_task);
    hand_over_put(&run->pipeline->computed, task);
}

/* ---- to a worker or the engine -------------------------------------------------------------- */

void job_run_start_task(struct job_run *run)
{
    job_run_move(run, run->stage, OWNER_WORKER);
    run->worker_task.priority = stage_table[run->stage].priority;
    workers_submit(run->pipeline->parts.workers, &run->worker_task);
}

static void enter_gpu(struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    if (!begin_compute(run)) {
        stages_advance(run);
        return;
    }
    if (engine_is_synchronous(pipeline->parts.engine)) {
        job_run_start_task(run);
        return;
    }
    job_run_move(run, STAGE_GPU, OWNER_ENGINE);
    run->engine_task.alone = run->lease->alone;
    dispatch_start(&pipeline->dispatch, &run->charge, clock_now_ns());
    engine_submit(pipeline->parts.engine, &run->engine_task);
}
