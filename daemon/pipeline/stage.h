/*
 * stage.h - a row of the table of stages, and how the loop takes a job from a stage.
 *
 * spine.c has the table, spine.h the order; daemon/telemetry/job_stages.h lists all stages.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

struct stage_row {
    enum stage_result (*enter)(struct job_run *run); /* on the loop; GPU also on a
                                                        worker. NULL: RESULT_RUN */
    enum stage_result (*run)(struct job_run *run, struct worker_tools *tools); /* on a worker */
    /* On the loop, which owns the job: ends what the job waits for, and releases what no later
     * stage needs. The stage may be unfinished. Not called for stages through which a worker
     * carried the job: ACK then releases their memory. NULL: nothing. */
    void (*leave)(struct job_run *run);
    uint32_t priority; /* of its worker_task */
    enum stage next;
};

/* Takes a waiting job back to the loop; the caller ends it by pipeline_resume. false: a worker or
 * the engine is running it, or it is in ACK. */
bool stage_withdraw(struct job_run *run);
/* Takes the job back from a worker, at the stage that the worker has reached. */
void stage_return(struct job_run *run);
/* The lease has ended while a worker or the engine still owns the job. */
void stage_make_zombie(struct job_run *run);
