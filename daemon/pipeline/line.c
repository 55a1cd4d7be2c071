#include "daemon/pipeline/line.h"

#include "conf/clock.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/job_input.h"
#include "daemon/pipeline/reads.h"
#include "daemon/pipeline/state.h"
#include "daemon/pipeline/trace_hooks.h"

/* ---- READ ----------------------------------------------------------------------------------- */

static bool is_waiting(const struct job_run *run)
{
    return run->input.step == READ_WAITS;
}

/* Whether the job has overtaken all reads that wait. */
static bool is_first(const struct job_run *run)
{
    each_run (other, &run->pipeline->stages[STAGE_READ]) {
        if (other == run)
            return !reads_must_yield(run);
        if (other->wait.turn == TURN_REFUSED ||
            (is_waiting(other) && other->wait.turn != TURN_ASIDE))
            return false;
    }
    return false;
}

enum stage_result line_enter_read(struct job_run *run)
{
    /* Others may wait for what it holds. An image that is a member of an archive has its file. */
    bool holds = run->overlays.held > 0 || run->overlays.loaded || run->input.file.memory;
    if (!run->pipeline->reads_wait || holds || is_first(run))
        return reads_start(run);
    run->input.step = READ_WAITS;
    reads_free_budget(run->pipeline);
    return RESULT_WAIT;
}

void line_rejoin(struct job_run *run)
{
    run->input.step = READ_WAITS;
    run->wait.turn = TURN_REFUSED;
    run->pipeline->reads_wait = true;
    /* Its loaded input counts in the read budget for keys, which its own overlays may need. */
    if (run->overlays.key_count > 0 && run->job.input.key)
        job_input_drop_loaded(run);
    reads_free_budget(run->pipeline);
}

/* Whether a job other than a zombie holds memory that the refused read lacks, or will soon take
 * it. Such a job gives the memory back when it goes on, so the read can wait for it. */
static bool room_will_come(const struct job_run *refused)
{
    struct pipeline *pipeline = refused->pipeline;
    if (!list_empty(&pipeline->stages[STAGE_DECODE]) ||
        (refused->wait.lack == LACKS_LANE && admission_usage(&pipeline->admission).used > 0))
        return true;
    each_run (run, &pipeline->stages[STAGE_ADMIT])
        if (run->wait.turn != TURN_ASIDE || run->reserved.needs_long) /* animations end */
            return true;
    each_run (run, &pipeline->stages[STAGE_READ])
        if (run->owner == OWNER_WORKER || run->overlays.held > 0 ||
            (run->input.reading && run->input.file.memory))
            return true;
    for (enum stage stage = STAGE_GPU; stage <= STAGE_ENCODE; stage++)
        each_run (run, &pipeline->stages[stage])
            if (run->input.file.memory)
                return true;
    return false;
}

/* A read that was refused. false: it stepped aside, because only zombies hold the memory. */
static bool try_again(struct job_run *run)
{
    bool is_stalled = run->wait.given == run->pipeline->files_given;
    if (is_stalled && room_will_come(run))
        return true;
    if (is_stalled && !list_empty(&run->pipeline->zombies)) {
        run->wait.turn = TURN_ASIDE;
        job_input_drop_loaded(run); /* frees the budget for others; it is read again */
        return false;
    }
    if (!reads_must_yield(run))
        pipeline_resume(run, reads_start(run));
    return true;
}

static void start_reads(struct pipeline *pipeline)
{
    if (!pipeline->reads_wait)
        return;
    pipeline->reads_wait = false;
    each_run (run, &pipeline->stages[STAGE_READ]) {
        bool waits = is_waiting(run);
        if (run->wait.turn == TURN_REFUSED && (!waits || try_again(run))) {
            pipeline->reads_wait = true;
            return;
        }
        if (!waits || run->wait.turn == TURN_ASIDE)
            continue;
        if (reads_must_yield(run))
            pipeline->reads_wait = true;
        else
            pipeline_resume(run, reads_start(run));
    }
}

/* ---- ADMIT ---------------------------------------------------------------------------------- */

enum stage_result line_enter_admit(struct job_run *run)
{
    admission_wait(run);
    return RESULT_WAIT;
}

static bool admit(struct job_run *run)
{
    if (!admission_try(run))
        return false;
    uint64_t now_ns = clock_now_ns();
    job_run_add_time(run, STAGE_ADMIT, clock_ms(run->timing.entered_ns, now_ns));
    trace_hooks_admit(run, run->timing.entered_ns, now_ns);
    pipeline_resume(run, RESULT_NEXT);
    return true;
}

static void admit_jobs(struct pipeline *pipeline)
{
    each_run (run, &pipeline->stages[STAGE_ADMIT]) {
        if (admit(run) || run->wait.turn == TURN_ASIDE)
            continue;
        bool may_leave =
            !list_empty(&pipeline->zombies) || admission_has_long(&pipeline->admission);
        if (!may_leave || !admission_step_aside(run))
            return;
        run->wait.turn = TURN_ASIDE;
    }
}

/* ---- both ----------------------------------------------------------------------------------- */

static void recall(struct pipeline *pipeline, enum stage stage)
{
    each_run (run, &pipeline->stages[stage]) {
        if (run->wait.turn != TURN_ASIDE)
            continue;
        run->wait.turn = TURN_REFUSED;
        if (stage == STAGE_ADMIT)
            admission_wait(run);
        else
            pipeline->reads_wait = true;
    }
}

void line_pump(struct pipeline *pipeline)
{
    if (admission_take_long_end(&pipeline->admission))
        recall(pipeline, STAGE_ADMIT);
    admit_jobs(pipeline);
    start_reads(pipeline);
}

void line_recall(struct pipeline *pipeline)
{
    recall(pipeline, STAGE_READ);
    recall(pipeline, STAGE_ADMIT);
}

void line_leave(struct job_run *run)
{
    if (run->stage == STAGE_ADMIT && run->wait.turn == TURN_ASIDE)
        recall(run->pipeline, STAGE_READ); /* its input held memory that a read may wait for */
    run->wait.turn = TURN_IN_ORDER;
}

bool line_is_stuck(struct pipeline *pipeline)
{
    if (!list_empty(&pipeline->stages[STAGE_ADMIT]) && admission_is_stuck(&pipeline->admission))
        return true;
    if (!pipeline->reads_wait) /* then none was refused: do not search all images in flight */
        return false;
    each_run (run, &pipeline->stages[STAGE_READ])
        if (run->wait.turn == TURN_REFUSED && is_waiting(run))
            return !room_will_come(run) ||
                   (run->wait.lack == LACKS_LANE && admission_is_idle(&pipeline->admission));
    return false;
}

uint32_t line_length(struct pipeline *pipeline)
{
    bool is_short = admission_is_short(&pipeline->admission);
    uint32_t length = 0;
    each_run (run, &pipeline->stages[STAGE_ADMIT])
        length += is_short || run->wait.turn == TURN_ASIDE;
    each_run (run, &pipeline->stages[STAGE_READ])
        length += is_waiting(run);
    return length;
}

void line_look(struct pipeline *pipeline, struct blocked_memory *memory)
{
    *memory = (struct blocked_memory){.by = BLOCKED_BY_NOTHING};
    each_run (run, &pipeline->stages[STAGE_ADMIT]) {
        if (run->wait.turn == TURN_ASIDE)
            continue;
        admission_look(run, memory);
        if (memory->by != BLOCKED_BY_NOTHING)
            return;
        break;
    }
    each_run (run, &pipeline->stages[STAGE_READ]) {
        if (!is_waiting(run) || run->wait.turn == TURN_IN_ORDER)
            continue;
        bool lane = run->wait.lack == LACKS_LANE;
        struct pool_usage usage =
            lane ? admission_usage(&pipeline->admission) : pool_usage(pipeline->file_pool);
        *memory = (struct blocked_memory){.by = lane ? BLOCKED_BY_CODECS : BLOCKED_BY_FILES,
                                          .wanted = lane ? 0 : run->input.bytes,
                                          .free = usage.budget - usage.used,
                                          .limit = usage.budget,
                                          .since_ns = run->timing.entered_ns};
        return;
    }
}
