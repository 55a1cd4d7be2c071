/*
 * computing.h - the stage GPU: runs the plan on a device, or on the CPU engine.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

/* On the loop or a worker. RESULT_NEXT: nothing is computed (plan.idle). */
enum stage_result computing_enter(struct job_run *run);
/* On a worker: runs the plan on the CPU engine. Then this worker encodes a small job; a large one
 * returns to the loop first. */
enum stage_result computing_run(struct job_run *run, struct worker_tools *tools);
/* Gives the job to its device, which then submits its worker_task. */
void computing_send(struct job_run *run);
/* On the worker that runs this worker_task, and then encodes. RESULT_AGAIN: a device has
 * declined the file. The job is planned again, for the codecs of the host; an open file is read
 * again. */
enum stage_result computing_take_back(struct job_run *run);
