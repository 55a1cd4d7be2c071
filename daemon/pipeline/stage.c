#include "daemon/pipeline/stage.h"

#include "conf/clock.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/line.h"
#include "daemon/pipeline/state.h"
#include "daemon/pipeline/trace_hooks.h"

/* A point where a test can kill or stop the daemon. The tests build a daemon that executes
 * $GPUIMGD_FAULT here (tests/faults/hook.c): on the loop when a job enters a stage, and on the
 * worker when it starts to run the stage. key: "enter" or "run". id: the job's, or NULL. */
#ifdef GPUIMGD_FAULT_HOOKS
void fault_point(const char *key, const char *stage, const char *id);
#else
#define fault_point(key, stage, id) ((void)0)
#endif

void stage_reach(const struct job_run *run, enum stage stage)
{
    (void)run;
    (void)stage;
    fault_point("enter", stage_name(stage), run->job.id);
}

/* ---- on the loop ---------------------------------------------------------------------------- */

void stage_enter(struct job_run *run, enum stage stage)
{
    struct pipeline *pipeline = run->pipeline;
    line_leave(run);
    run->timing.entered_ns = clock_now_ns();
    if (stage > STAGE_ADMIT)
        pipeline->moved_ns = run->timing.entered_ns;
    job_run_move(run, stage, OWNER_LOOP);
    stage_reach(run, stage);
    pipeline->table[stage].enter(run);
}

void stage_done(struct job_run *run)
{
    stage_enter(run, run->pipeline->next_stage(run));
}

void stage_end(struct job_run *run, enum outcome outcome)
{
    job_run_decide(run, outcome);
    stage_done(run);
}

void stage_make_zombie(struct job_run *run)
{
    line_leave(run);
    job_run_move(run, run->stage, OWNER_ZOMBIE);
}

void stage_return(struct job_run *run)
{
    line_leave(run);
    job_run_move(run, atomic_load(&run->at), OWNER_LOOP);
}

bool stage_withdraw(struct job_run *run)
{
    const struct stage_row *row = &run->pipeline->table[run->stage];
    if (run->owner == OWNER_LOOP) {
        if (row->leave)
            row->leave(run);
        return true;
    }
    if (run->owner != OWNER_WORKER ||
        !workers_withdraw(run->pipeline->parts.workers, &run->worker_task))
        return false;
    stage_return(run);
    return true;
}

/* ---- to a worker, and there ----------------------------------------------------------------- */

void stage_submit(struct job_run *run, enum stage stage)
{
    run->worker_task.priority = run->pipeline->table[stage].priority;
    workers_submit(run->pipeline->parts.workers, &run->worker_task);
}

void stage_start(struct job_run *run)
{
    job_run_move(run, run->stage, OWNER_WORKER);
    stage_submit(run, run->stage);
}

void stage_run(struct job_run *run, struct worker_tools *tools)
{
    enum stage stage = atomic_load(&run->at);
    uint64_t begin_ns = clock_now_ns();
    job_run_start_clock(run);
    fault_point("run", stage_name(stage), run->job.id);
    run->pipeline->table[stage].run(run, tools);
    uint64_t end_ns = clock_now_ns();
    double *ms = &run->timing.ms[stage];
    *ms = (*ms > 0 ? *ms : 0) + clock_ms(begin_ns, end_ns); /* a read may run several times */
    trace_hooks_run(run, tools->number, begin_ns, end_ns);
}

void stage_carry_to(struct job_run *run, enum stage stage)
{
    atomic_store(&run->at, stage);
    stage_reach(run, stage);
}
