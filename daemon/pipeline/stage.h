/*
 * stage.h - a job enters a stage, runs it on a worker, and leaves it. spine.h chooses the stage;
 * daemon/telemetry/job_stages.h lists all of them.
 */
#pragma once

#include "daemon/pipeline/job_run.h"
#include "daemon/telemetry/job_stages.h"

/* A row of the table of stages. */
struct stage_row {
    void (*enter)(struct job_run *run); /* on the loop, when a job enters the stage */
    void (*run)(struct job_run *run, struct worker_tools *tools); /* on a worker; may be NULL */
    /* On the loop, which owns the job: ends what the job waits for. NULL: nothing. Idempotent. */
    void (*leave)(struct job_run *run);
    uint32_t priority; /* of its worker_task */
};

/* Moves a job that the loop owns, or a new one, to a stage and enters the stage. For spine.c. */
void stage_enter(struct job_run *run, enum stage stage);
/* The stage is over, on the loop: enters the next one, or ACK if the job has an error or an
 * outcome. */
void stage_done(struct job_run *run);
/* Decides the outcome and moves the job to ACK. */
void stage_end(struct job_run *run, enum outcome outcome);
/* Takes the job back from a worker, at the stage that the worker has reached. */
void stage_return(struct job_run *run);
/* The lease has ended while a worker or the engine still owns the job. */
void stage_make_zombie(struct job_run *run);
/* Takes a waiting job back to the loop. false: a worker or the engine is running it. */
bool stage_withdraw(struct job_run *run);

/* A worker runs the stage of the job, which the loop owns. */
void stage_start(struct job_run *run);
/* Any thread: a worker runs the job, with the priority of the stage. */
void stage_submit(struct job_run *run, enum stage stage);
/* On a worker: runs the stage that the job has reached. */
void stage_run(struct job_run *run, struct worker_tools *tools);
/* On a worker, which goes on with the given stage. */
void stage_carry_to(struct job_run *run, enum stage stage);
/* The job reaches the stage: tests can end the daemon here. */
void stage_reach(const struct job_run *run, enum stage stage);
