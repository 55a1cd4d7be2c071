#include "daemon/pipeline/admit.h"

#include "conf/clock.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"
#include "daemon/pipeline/trace_hooks.h"

static bool admit(struct job_run *run)
{
    if (!admission_try(run))
        return false;
    uint64_t now_ns = clock_now_ns();
    run->timing.ms[STAGE_ADMIT] = clock_ms(run->timing.entered_ns, now_ns);
    trace_hooks_admit(run, run->timing.entered_ns, now_ns);
    pipeline_resume(run, RESULT_NEXT);
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

void admit_pump(struct pipeline *pipeline)
{
    each_run (run, &pipeline->stages[STAGE_ADMIT])
        if (!admit(run) && !lets_pass(run))
            return;
}
