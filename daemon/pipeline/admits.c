/* admits.c - the stage ADMIT: jobs wait on the loop for memory, in order of arrival. */
#include "conf/clock.h"
#include "daemon/pipeline/pipeline_impl.h"

static bool admit(struct job_run *run)
{
    if (!admission_try(run))
        return false;
    uint64_t now_ns = clock_now_ns();
    run->timing.ms[STAGE_ADMIT] = clock_ms(run->timing.entered_ns, now_ns);
    trace_hooks_admit(run, now_ns);
    stages_move(run, run->error.status == STATUS_OK ? STAGE_DECODE : STAGE_ACK);
    return true;
}

/* Whether the next job may be tried although this job was refused: only zombies hold memory. */
static bool lets_pass(struct job_run *run)
{
    enum turn *turn = &run->input.turn;
    if (*turn != TURN_ASIDE && !list_empty(&run->pipeline->zombies) && admission_step_aside(run))
        *turn = TURN_ASIDE;
    return *turn == TURN_ASIDE;
}

void admits_recall(struct pipeline *pipeline)
{
    list_each (node, &pipeline->stages[STAGE_ADMIT]) {
        struct job_run *run = container_of(node, struct job_run, node);
        if (run->input.turn == TURN_ASIDE)
            admission_wait(run);
        run->input.turn = TURN_IN_ORDER;
    }
}

void admits_pump(struct pipeline *pipeline)
{
    list_each_safe (node, after, &pipeline->stages[STAGE_ADMIT]) {
        struct job_run *run = container_of(node, struct job_run, node);
        if (!admit(run) && !lets_pass(run))
            return;
    }
}
