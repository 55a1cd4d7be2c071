#include "daemon/pipeline/stage.h"

#include "daemon/pipeline/line.h"
#include "daemon/pipeline/state.h"

bool stage_withdraw(struct job_run *run)
{
    if (run->owner == OWNER_LOOP)
        return run->stage < STAGE_ACK;
    if (run->owner != OWNER_WORKER ||
        !workers_withdraw(run->pipeline->parts.workers, &run->worker_task))
        return false;
    stage_return(run);
    return true;
}

void stage_return(struct job_run *run)
{
    enum stage at = atomic_load(&run->at);
    if (at != run->stage)
        line_leave(run);
    job_run_move(run, at, OWNER_LOOP);
}

void stage_make_zombie(struct job_run *run)
{
    line_leave(run);
    job_run_move(run, run->stage, OWNER_ZOMBIE);
}
