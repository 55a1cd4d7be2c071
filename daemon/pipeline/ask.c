#include "daemon/pipeline/ask.h"

#include "conf/log.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/stage.h"

void ask_enter(struct job_run *run)
{
    const struct job *job = &run->job;
    struct queue_conditions conditions = {.id = job->id, .unique = job->unique,
                                          .not_before = job->not_before, .expires = job->expires};
    if (queue_ask(run->queue, run->lease, &conditions))
        return;
    char label[LABEL_BYTES];
    log_error("job %s: no memory for its start conditions; it returns to the queue",
              job_run_label(run, label));
    stage_end(run, OUTCOME_RETURNED); /* uncovered: memory */
}
