#include "daemon/pipeline/spine.h"

#include <inttypes.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "daemon/pipeline/ack.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/ask.h"
#include "daemon/pipeline/computing.h"
#include "daemon/pipeline/decoding.h"
#include "daemon/pipeline/disk.h"
#include "daemon/pipeline/encoding.h"
#include "daemon/pipeline/give_back.h"
#include "daemon/pipeline/job_input.h"
#include "daemon/pipeline/job_outputs.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/line.h"
#include "daemon/pipeline/reading.h"
#include "daemon/pipeline/reads.h"
#include "daemon/pipeline/release.h"
#include "daemon/pipeline/set_image.h"
#include "daemon/pipeline/set_stage.h"
#include "daemon/pipeline/stage.h"
#include "daemon/pipeline/state.h"
#include "daemon/pipeline/trace_hooks.h"
#include "daemon/pipeline/uploads.h"

/* A point where a test can kill or stop the daemon. The tests build a daemon that executes
 * $GPUIMGD_FAULT here (tests/faults/hook.c). key "enter": a job enters a stage, on the loop or on
 * the worker that carries it; "run": a worker starts to run it. id: the job's, or NULL. */
#ifdef GPUIMGD_FAULT_HOOKS
void fault_point(const char *key, const char *stage, const char *id);
#else
#define fault_point(key, stage, id) ((void)0)
#endif

/* Priorities: the job that is closest to its end runs first. */
static const struct stage_row table[STAGE_COUNT] = {
    [STAGE_ASK] = {.enter = ask_enter, .next = STAGE_READ},
    [STAGE_READ] = {.enter = line_enter_read,
                    .run = reading_run,
                    .leave = reads_leave,
                    .priority = 0,
                    .next = STAGE_ADMIT},
    [STAGE_ADMIT] = {.enter = line_enter_admit, .next = STAGE_DECODE},
    [STAGE_DECODE] = {.run = decoding_run,
                      .leave = decoding_leave,
                      .priority = 1,
                      .next = STAGE_GPU},
    [STAGE_GPU] = {.enter = computing_enter,
                   .run = computing_run,
                   .priority = 2,
                   .next = STAGE_ENCODE},
    [STAGE_ENCODE] = {.run = encoding_run,
                      .leave = encoding_leave,
                      .priority = 3,
                      .next = STAGE_UPLOAD},
    [STAGE_UPLOAD] = {.enter = uploads_enter, .leave = uploads_leave, .next = STAGE_ACK},
    [STAGE_SET] = {.enter = set_stage_enter,
                   .run = set_stage_run,
                   .leave = set_stage_leave,
                   .priority = 3,
                   .next = STAGE_ACK},
    [STAGE_ACK] = {.enter = ack_enter},
};

/* ---- on the loop ---------------------------------------------------------------------------- */

/* Whether the job waits for its images from now on, or its image for the tar or array. */
static bool joins_set(const struct job_run *run)
{
    return run->set && run->stage == (run->is_image ? STAGE_UPLOAD : STAGE_READ);
}

/* If an output has failed, the job still uploads the others. */
static enum stage choose(const struct job_run *run, enum stage_result result)
{
    bool has_failed = run->error.status != STATUS_OK && run->stage != STAGE_ENCODE;
    if (result == RESULT_END || has_failed || !job_run_is_open(run))
        return STAGE_ACK;
    if (result == RESULT_AGAIN)
        return STAGE_READ;
    return joins_set(run) ? STAGE_SET : table[run->stage].next;
}

/* A job may enter its own stage again (RESULT_AGAIN in READ). It then keeps its place in the
 * line: neither the function `leave` of the stage nor job_run_move is called. */
static enum stage_result enter(struct job_run *run, enum stage stage)
{
    if (run->owner == OWNER_NONE || run->stage != stage) {
        if (table[run->stage].leave)
            table[run->stage].leave(run);
        line_leave(run);
        /* One look at the clock for all images that begin together. */
        run->timing.entered_ns =
            run->pipeline->gathers ? run->pipeline->pumped_ns : clock_now_ns();
        if (stage > STAGE_ADMIT)
            run->pipeline->moved_ns = run->timing.entered_ns;
        job_run_move(run, stage, OWNER_LOOP);
        fault_point("enter", stage_name(stage), run->job.id);
    }
    return table[stage].enter ? table[stage].enter(run) : RESULT_RUN;
}

/* To a device, whose thread submits the job to the workers again. */
static void send_to_device(struct job_run *run)
{
    run->worker_task.priority = table[STAGE_ENCODE].priority;
    computing_send(run);
}

static void start(struct job_run *run)
{
    job_run_move(run, run->stage, OWNER_WORKER);
    if (job_run_is_on_device(run)) {
        send_to_device(run);
        return;
    }
    run->worker_task.priority = table[run->stage].priority;
    if (run->pipeline->gathers)
        list_push(&run->pipeline->gathered, &run->worker_task.node);
    else
        workers_submit(run->pipeline->parts.workers, &run->worker_task);
}

void spine_resume(struct job_run *run, enum stage_result result)
{
    while (result != RESULT_WAIT && result != RESULT_RUN) {
        if (result == RESULT_RETURN && job_run_is_open(run))
            job_run_decide(run, OUTCOME_RETURNED);
        if (run->outcome == OUTCOME_CANCELLED)
            job_outputs_end_cancelled(run);
        result = enter(run, choose(run, result));
    }
    if (result == RESULT_RUN)
        start(run);
}

void spine_begin(struct job_run *run, enum outcome outcome)
{
    if (outcome != OUTCOME_OPEN)
        job_run_decide(run, outcome);
    bool asks_nothing = run->is_image && run->error.status == STATUS_OK;
    spine_resume(run, enter(run, asks_nothing ? STAGE_READ : STAGE_ASK));
}

/* ---- back from a worker --------------------------------------------------------------------- */

/* An image that a worker has carried to STAGE_SET: set_image_joins. */
static void done_image(struct job_run *run)
{
    if (!job_run_is_open(run))
        spine_resume(run, RESULT_END);
    else if (!set_stage_waits(run))
        set_image_end(run);
}

/* Whether the job must return to the queue because of the disk: a write has failed, or would. */
static bool lacks_disk(struct job_run *run)
{
    char label[LABEL_BYTES];
    if (run->lacks_room) {
        log_warning("job %s runs again later: %s; an output has at least %" PRIu64 " bytes, and "
                    "the disk has room for %" PRIu64,
                    job_run_label(run, label), run->error.text, run->needed, run->room);
        return true;
    }
    if (run->disk_error.status == STATUS_OK)
        return run->stage < STAGE_ENCODE && run->error.status == STATUS_OK &&
               job_run_lacks_disk(run);
    log_warning("job %s returns to the queue: %s", job_run_label(run, label), run->error.text);
    /* Returns the jobs in earlier stages first. Each job goes to the head of the queue, so the
     * last one returned is fetched first. That must be `run`, which is usually the oldest. */
    if (disk_fail(&run->pipeline->disk, &run->disk_error))
        give_back_files(run->pipeline);
    return true;
}

static enum stage_result judge(struct job_run *run)
{
    bool is_early = run->stage < STAGE_GPU && run->error.status == STATUS_OK;
    if ((is_early && run->pipeline->failed) ||
        (run->outcome != OUTCOME_CANCELLED && lacks_disk(run)))
        return RESULT_RETURN;
    return job_run_is_open(run) ? run->stage_result : RESULT_END;
}

void spine_done(struct worker_task *task)
{
    struct job_run *run = container_of(task, struct job_run, worker_task);
    struct pipeline *pipeline = run->pipeline;
    if (run->owner == OWNER_ZOMBIE) {
        release_slot(run);
        line_recall(pipeline);
        return;
    }
    if (!run->overlays.loaded)
        job_input_end_overlay(run);
    if (!run->input.loaded)
        job_input_end_key(run);
    stage_return(run);
    if (run->stage == STAGE_SET)
        set_stage_returned(run);
    if (run->stage == STAGE_SET && run->is_image) {
        done_image(run);
        return;
    }
    enum stage_result result = judge(run);
    if (result == RESULT_WAIT && run->stage == STAGE_READ)
        line_rejoin(run);
    spine_resume(run, result);
}

/* ---- on a worker ---------------------------------------------------------------------------- */

/* On a worker, which goes on with the given stage. */
static void carry_to(struct job_run *run, enum stage stage)
{
    atomic_store(&run->at, stage);
    fault_point("enter", stage_name(stage), run->job.id);
}

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

/* After the read: a job that is carried is admitted here if the line is empty and there is
 * memory (admission.h). Every other job joins the line, and the loop admits it. So does a job
 * that is not small whose input is from a key or a URL: the loop first returns its bytes to the
 * read budget (READS_*, limits.h). */
static bool carry_through_admission(struct job_run *run)
{
    if (!is_carried(run) || (run->input.key_counted && !is_small(run))) {
        admission_wait(run);
        return false;
    }
    fault_point("enter", stage_name(STAGE_ADMIT), run->job.id);
    if (!admission_pass(run) || run->error.status != STATUS_OK)
        return false;
    uint64_t now_ns = clock_now_ns();
    job_run_add_time(run, STAGE_ADMIT, 0);
    trace_hooks_admit(run, now_ns, now_ns);
    carry_to(run, STAGE_DECODE);
    return true;
}

static bool is_late(struct job_run *run)
{
    bool late = clock_now_ns() >= run->timing.deadline_ns;
    if (late) /* uncovered: refusal */
        job_run_set_late(run, &run->error);
    return late;
}

/* After a stage or a device: moves the job to its next stage on this worker, and returns true.
 * false: the job must go back to the loop. */
static bool carry_on(struct job_run *run)
{
    enum stage stage = atomic_load(&run->at);
    if (run->error.status != STATUS_OK || stage == STAGE_ENCODE || !job_run_is_open(run) ||
        (run->set && !run->is_image) || atomic_load(&run->pipeline->failed))
        return false;
    if (stage == STAGE_READ)
        return carry_through_admission(run);
    /* After a device, this worker encodes every job, also one that is not carried. */
    if ((!is_carried(run) && !job_run_is_on_device(run)) || is_late(run))
        return false;
    carry_to(run, table[stage].next);
    if (stage == STAGE_DECODE && computing_enter(run) == RESULT_NEXT)
        carry_to(run, STAGE_ENCODE);
    return true;
}

/* Whether the job leaves the last line in which it waits. Its rank then counts as served: jobs
 * fetched later rank after it (ranks.h). Small jobs of the CPU engine wait last for their
 * decode, all others for their encode. If the others counted as served at their decode, an
 * urgent job fetched later would rank after them, although they still wait for their encode. A job
 * that only measures its borders is read, admitted and decoded again. */
static bool leaves_lines(const struct job_run *run)
{
    enum stage stage = atomic_load(&run->at);
    return stage == STAGE_ENCODE || (stage == STAGE_DECODE && is_small(run) && !run->measures &&
                                     engine_is_synchronous(run->pipeline->parts.engine));
}

/* Runs the stage that the job has reached. */
static enum stage_result run_stage(struct job_run *run, struct worker_tools *tools)
{
    enum stage stage = atomic_load(&run->at);
    if (run->is_image)
        set_image_prepare(run);
    uint64_t begin_ns = clock_now_ns();
    job_run_start_clock(run);
    if (leaves_lines(run))
        ranks_serve(&run->pipeline->ranks, &run->worker_task.rank);
    fault_point("run", stage_name(stage), run->job.id);
    enum stage_result result = table[stage].run(run, tools);
    uint64_t end_ns = clock_now_ns();
    job_run_add_time(run, stage, clock_ms(begin_ns, end_ns));
    trace_hooks_run(run, tools->number, begin_ns, end_ns);
    return result;
}

/* With few slots for images, all of them may soon wait for the loop. */
#define SLOTS_MANY 64
static bool is_awaited(const struct job_run *run)
{
    return run->is_image && run->pipeline->image_slots < SLOTS_MANY;
}

void spine_run(struct worker_task *task, struct worker_tools *tools)
{
    struct job_run *run = container_of(task, struct job_run, worker_task);
    enum stage_result result =
        job_run_is_on_device(run) ? computing_take_back(run) : run_stage(run, tools);
    while (result == RESULT_NEXT && carry_on(run)) {
        if (job_run_is_on_device(run)) {
            workers_hand_on(tools, task);
            send_to_device(run);
            return;
        }
        result = run_stage(run, tools);
    }
    run->stage_result = result;
    bool is_encoded = atomic_load(&run->at) == STAGE_ENCODE, others_wait = false;
    if (is_encoded) {
        release_plan(run);
        ack_write_result(run);
        others_wait = !run->is_parked && admission_release(run);
    }
    /* The memory is released now. The loop may handle the task later, unless a job in the line
     * waits for that memory. */
    task->patient = is_encoded && !others_wait && !is_awaited(run);
    if (is_encoded && result == RESULT_NEXT && run->is_image && set_image_joins(run))
        carry_to(run, STAGE_SET);
}
