#include "daemon/pipeline/give_back.h"

#include "daemon/pipeline/ack.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/stage.h"
#include "daemon/pipeline/state.h"

/* Returns the jobs up to the stage `last`, the youngest first: the queue fetches the last one
 * first, so the order is kept. files: only jobs that need the disk. force: also jobs that a worker
 * or the engine is running. */
static void give_back(struct pipeline *pipeline, enum stage last, bool files, bool force)
{
    for (enum stage stage = STAGE_ASK; stage <= last; stage++) {
        each_run_back (run, &pipeline->stages[stage]) {
            if ((files && !job_run_lacks_disk(run)) || atomic_load(&run->at) > last)
                continue;
            if (run->is_image && run->stage == STAGE_SET) /* a worker may be writing it */
                continue;
            if (stage_withdraw(run))
                pipeline_resume(run, RESULT_RETURN);
            else if (force)
                ack_abandon(run, NULL);
        }
    }
}

void give_back_files(struct pipeline *pipeline)
{
    give_back(pipeline, STAGE_DECODE, true, false);
}

void give_back_all(struct pipeline *pipeline)
{
    give_back(pipeline, STAGE_SET, false, true);
}

void give_back_waiting(struct pipeline *pipeline)
{
    give_back(pipeline, STAGE_DECODE, false, false);
}
