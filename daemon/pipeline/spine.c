#include "daemon/pipeline/spine.h"

#include <inttypes.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "daemon/pipeline/ack.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/ask.h"
#include "daemon/pipeline/decoding.h"
#include "daemon/pipeline/disk.h"
#include "daemon/pipeline/dispatch.h"
#include "daemon/pipeline/encoding.h"
#include "daemon/pipeline/give_back.h"
#include "daemon/pipeline/job_input.h"
#include "daemon/pipeline/job_outputs.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/line.h"
#include "daemon/pipeline/reading.h"
#include "daemon/pipeline/reads.h"
#include "daemon/pipeline/release.h"
#include "daemon/pipeline/route.h"
#include "daemon/pipeline/stage.h"
#include "daemon/pipeline/state.h"
#include "daemon/pipeline/trace_hooks.h"
#include "daemon/pipeline/uploads.h"

static void enter_gpu(struct job_run *run);
static void on_computed(struct engine_task *task);

/* Priorities: the job that is closest to its end runs first. */
const struct stage_row spine_table[STAGE_COUNT] = {
    [STAGE_ASK] = {.enter = ask_enter},
    [STAGE_READ] = {reads_enter, reading_run, reads_leave, 0},
    [STAGE_ADMIT] = {.enter = admission_wait},
    [STAGE_DECODE] = {stage_start, decoding_run, NULL, 1},
    [STAGE_GPU] = {enter_gpu, decoding_compute, NULL, 2},
    [STAGE_ENCODE] = {stage_start, encoding_run, NULL, 3},
    [STAGE_UPLOAD] = {.enter = uploads_enter, .leave = uploads_leave},
    [STAGE_ACK] = {.enter = ack_enter},
};

/* ---- from one stage to another -------------------------------------------------------------- */

/* Whether the job must return to the queue because of the disk: a write has failed, or would. */
static bool lacks_disk(struct job_run *run, enum stage next)
{
    char label[LABEL_BYTES];
    if (run->lacks_room) {
        log_warning("job %s runs again later: %s; it has at least %" PRIu64 " bytes, and there is "
                    "room for %" PRIu64, job_run_label(run, label), run->error.text, run->needed,
                    run->room);
        return true;
    }
    if (run->disk_error.status == STATUS_OK)
        return next <= STAGE_ENCODE && run->error.status == STATUS_OK && job_run_lacks_disk(run);
    log_warning("job %s returns to the queue: %s", job_run_label(run, label), run->error.text);
    if (disk_fail(&run->pipeline->disk, &run->disk_error))
        give_back_files(run->pipeline); /* before this job, which is older */
    return true;
}

static enum stage first_stage(const struct job_run *run)
{
    const struct job *job = &run->job;
    if (!job_run_is_open(run))
        return STAGE_ACK;
    bool asks = job->unique || job->not_before.seconds > 0 || job->expires.seconds > 0;
    return asks || (run->lease->marked && job->id) ? STAGE_ASK : STAGE_READ;
}

void spine_begin(struct job_run *run)
{
    stage_enter(run, first_stage(run));
}

/* If an output has failed, the job still uploads the others. */
enum stage spine_next(const struct job_run *run)
{
    if (!job_run_is_open(run))
        return STAGE_ACK;
    if (run->stage == STAGE_ENCODE)
        return uploads_are_due(run) ? STAGE_UPLOAD : STAGE_ACK;
    return run->error.status == STATUS_OK ? run->stage + 1 : STAGE_ACK;
}

/* After a stage of a worker: moves the job to the next one. */
static void advance(struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    enum stage next = run->stage + 1;
    if (run->stage == STAGE_DECODE) {
        admission_keep_encoder(run);
        dispatch_decoded(&pipeline->dispatch, &run->charge);
    }
    if (run->stage == STAGE_GPU ||
        (run->stage == STAGE_DECODE && run->input.decoder == CODEC_ON_HOST))
        job_input_release(run); /* a device may decline the file */
    bool goes_back = pipeline->failed && next <= STAGE_GPU && run->error.status == STATUS_OK;
    if (run->outcome == OUTCOME_CANCELLED)
        job_outputs_end_cancelled(run);
    else
        goes_back |= lacks_disk(run, next);
    if (goes_back && run->outcome != OUTCOME_RETURNED)
        job_run_decide(run, OUTCOME_RETURNED);
    stage_done(run);
}

/* ---- on a worker ---------------------------------------------------------------------------- */

static bool is_small(const struct job_run *run)
{
    return admission_need(run) <= SMALL_JOB_BYTES;
}

/* Whether a worker carries the job from stage to stage. A large job that the host decodes returns
 * to the loop, which then releases the memory of the decoder and of the file. */
static bool is_carried(const struct job_run *run)
{
    return is_small(run) || (run->input.decoder == CODEC_ON_DEVICE &&
                             !engine_is_synchronous(run->pipeline->parts.engine));
}

/* Whether the job has passed the last line when a worker begins the stage that it has reached. A
 * large job of the CPU engine waits for a worker again before it is encoded: if its decode counted,
 * jobs that are fetched later could not overtake the jobs that wait there. */
static bool leaves_lines(const struct job_run *run)
{
    enum stage stage = atomic_load(&run->at);
    return stage == STAGE_ENCODE || (stage == STAGE_DECODE && is_small(run) &&
                                     engine_is_synchronous(run->pipeline->parts.engine));
}

/* After the read: admits the job on this worker if the line is empty. Other jobs join it. After a
 * large input from a key, the loop first returns the queue's budget for it. */
static bool carry_through_admission(struct job_run *run)
{
    if (!is_carried(run) || (run->input.key_counted && !is_small(run))) {
        admission_wait(run);
        return false;
    }
    stage_reach(run, STAGE_ADMIT);
    if (!admission_pass(run) || run->error.status != STATUS_OK)
        return false;
    uint64_t now_ns = clock_now_ns();
    run->timing.ms[STAGE_ADMIT] = 0;
    trace_hooks_admit(run, now_ns, now_ns);
    stage_carry_to(run, STAGE_DECODE);
    return true;
}

/* On a worker or the loop. false: the plan has no passes. */
static bool begin_compute(struct job_run *run)
{
    run->engine_task = (struct engine_task){
        .plan = &run->plan,
        .memory = &run->reserved.memory,
        .deadline_ns = run->timing.deadline_ns,
        .alone = run->alone,
        .rank = run->worker_task.rank,
        .done = on_computed,
    };
    return !run->plan.idle;
}

static void start_on_device(struct job_run *run)
{
    dispatch_start(&run->pipeline->dispatch, &run->charge, clock_now_ns());
    engine_submit(run->pipeline->parts.engine, &run->engine_task);
}

static bool is_late(struct job_run *run)
{
    bool late = clock_now_ns() >= run->timing.deadline_ns;
    if (late) /* uncovered: refusal */
        job_run_set_late(run, &run->error);
    return late;
}

/* After a stage: whether this worker goes on with the next stage without returning to the loop. It
 * returns if the loop must decide something. */
static bool carry_on(struct job_run *run)
{
    enum stage stage = atomic_load(&run->at);
    if (run->error.status != STATUS_OK || stage == STAGE_ENCODE || !job_run_is_open(run) ||
        atomic_load(&run->pipeline->failed))
        return false;
    if (stage == STAGE_READ)
        return !job_input_lacks_room(run) && !run->overlays.reads_on &&
               carry_through_admission(run);
    if (!is_carried(run) || is_late(run))
        return false;
    stage_carry_to(run, stage + 1);
    if (stage == STAGE_DECODE && !begin_compute(run))
        stage_carry_to(run, STAGE_ENCODE);
    return true;
}

/* After a device: whether this worker encodes. Else the loop decides. */
static bool carry_from_device(struct job_run *run)
{
    trace_hooks_task(run);
    run->error = run->engine_task.error;
    if (run->error.status != STATUS_OK || !job_run_is_open(run) || route_was_declined(run) ||
        is_late(run))
        return false;
    stage_carry_to(run, STAGE_ENCODE);
    return true;
}

void spine_run(struct worker_task *task, struct worker_tools *tools)
{
    struct job_run *run = container_of(task, struct job_run, worker_task);
    bool goes_on = !job_run_is_on_device(run) || carry_from_device(run);
    while (goes_on && !job_run_is_on_device(run)) {
        if (leaves_lines(run))
            ranks_serve(&run->pipeline->ranks, &run->worker_task.rank);
        stage_run(run, tools);
        goes_on = carry_on(run);
    }
    if (goes_on) {
        workers_hand_on(run->pipeline->parts.workers, tools, task);
        start_on_device(run);
        return;
    }
    bool is_encoded = atomic_load(&run->at) == STAGE_ENCODE;
    if (is_encoded) {
        release_plan(run);
        ack_write_result(run);
    }
    /* The memory is released now, so the loop may handle the task later. */
    task->patient = is_encoded && !admission_release(run);
}

/* ---- on a device's thread ------------------------------------------------------------------- */

static void on_computed(struct engine_task *task)
{
    struct job_run *run = container_of(task, struct job_run, engine_task);
    bool is_decoded = task->error.status == STATUS_OK && !route_was_declined(run);
    dispatch_return(&run->pipeline->dispatch, &run->charge, clock_now_ns(), is_decoded);
    stage_submit(run, STAGE_ENCODE);
}

/* ---- back on the loop ----------------------------------------------------------------------- */

/* A worker or the engine returns a job. false: it was a zombie, and its slot is free now. */
static bool take_back(struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    if (run->owner != OWNER_ZOMBIE)
        return true;
    release_slot(run);
    line_recall(pipeline);
    return false;
}

/* Plans the job again, for the codecs of the host. An open file is read again. */
static void leave_device(struct job_run *run)
{
    run->input.declined = true;
    run->engine_task.plan = NULL;
    release_plan(run);
    bool others_wait = admission_release(run);
    (void)others_wait; /* they are tried after the events of this turn of the loop */
    stage_enter(run, STAGE_READ);
}

void spine_done(struct worker_task *task)
{
    struct job_run *run = container_of(task, struct job_run, worker_task);
    if (!take_back(run))
        return;
    if (!run->overlays.loaded)
        job_input_end_overlay(run);
    if (!run->input.loaded)
        job_input_end_key(run);
    if (run->stage == STAGE_READ && job_input_lacks_room(run) && job_run_is_open(run) &&
        !run->pipeline->failed) {
        job_run_move(run, STAGE_READ, OWNER_LOOP);
        reads_refuse(run);
        return;
    }
    if (run->stage == STAGE_READ && run->overlays.reads_on && run->error.status == STATUS_OK &&
        job_run_is_open(run) && !run->pipeline->failed) {
        job_run_move(run, STAGE_READ, OWNER_LOOP);
        reads_enter(run);
        return;
    }
    bool from_device = job_run_is_on_device(run);
    stage_return(run);
    if (from_device && run->engine_task.returned && job_run_is_open(run))
        job_run_decide(run, OUTCOME_RETURNED);
    if (from_device && run->error.status == STATUS_OK && job_run_is_open(run) &&
        route_was_declined(run))
        leave_device(run);
    else
        advance(run);
}

/* ---- to a worker or the engine -------------------------------------------------------------- */

static void enter_gpu(struct job_run *run)
{
    if (!begin_compute(run)) {
        advance(run);
        return;
    }
    if (!job_run_is_on_device(run)) {
        stage_start(run);
        return;
    }
    job_run_move(run, STAGE_GPU, OWNER_WORKER);
    start_on_device(run);
}
