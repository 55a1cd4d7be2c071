#include "daemon/pipeline/ask.h"

#include "conf/log.h"
#include "daemon/pipeline/job_run.h"

static bool asks(const struct job_run *run)
{
    const struct job *job = &run->job;
    if (run->is_image)
        return false;
    return job->unique || job->not_before.seconds > 0 || job->expires.seconds > 0 ||
           (run->lease->may_be_cancelled && job->id);
}

enum stage_result ask_enter(struct job_run *run)
{
    const struct job *job = &run->job;
    struct queue_conditions conditions = {.id = job->id, .unique = job->unique,
                                          .not_before = job->not_before, .expires = job->expires};
    if (!job_run_is_open(run) || !asks(run))
        return RESULT_NEXT;
    if (queue_ask(run->queue, run->lease, &conditions))
        return RESULT_WAIT;
    char label[LABEL_BYTES];
    log_error("job %s: no memory for its start conditions; it returns to the queue",
              job_run_label(run, label));
    return RESULT_RETURN; /* uncovered: memory */
}
