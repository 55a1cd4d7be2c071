#include "daemon/pipeline/line.h"

#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"

static void recall_reads(struct pipeline *pipeline)
{
    each_run (run, &pipeline->stages[STAGE_READ]) {
        if (run->input.turn != TURN_ASIDE)
            continue;
        run->input.turn = TURN_REFUSED;
        pipeline->reads_wait = true;
    }
}

static void recall_admissions(struct pipeline *pipeline)
{
    each_run (run, &pipeline->stages[STAGE_ADMIT]) {
        if (run->input.turn == TURN_ASIDE)
            admission_wait(run);
        run->input.turn = TURN_IN_ORDER;
    }
}

void line_recall(struct pipeline *pipeline)
{
    recall_reads(pipeline);
    recall_admissions(pipeline);
}

void line_leave(struct job_run *run)
{
    if (run->stage == STAGE_READ && run->input.turn != TURN_IN_ORDER)
        run->pipeline->read_stalled = false; /* the next job may need less room */
    if (run->stage == STAGE_ADMIT && run->input.turn == TURN_ASIDE)
        recall_reads(run->pipeline); /* its input held memory that a read may wait for */
    run->input.turn = TURN_IN_ORDER;
}
