/*
 * spine.h - chooses the next stage of each job, on the loop, on a worker and after a device.
 *
 * lease_events.h makes a job of each lease. It then passes these stages:
 *
 *   stage    on the loop          on a worker
 *   ASK      ask.h                                   asks only if Redis decides about its start
 *   READ     line.h, reads.h      reading.h          the plan: planning.h, route.h, job_overlays.h
 *   ADMIT    line.h               admission.h        the memory; on a worker: jobs that it carries
 *   DECODE                        decoding.h
 *   GPU      computing.h          computing.h        CPU engine; or sends a job that it carries to
 *                                                    its device, and takes jobs back from there
 *   ENCODE                        encoding.h         then ack.h writes the result
 *   UPLOAD   uploads.h                               only outputs to URLs
 *   ACK      ack.h, release.h
 *
 * deadline.h and give_back.h end a job in any stage.
 */
#pragma once

#include "daemon/pipeline/stage.h"

/* The first stage of a job that was just leased. outcome: if it is decided already. */
void spine_begin(struct job_run *run, enum outcome outcome);
/* For pipeline_resume: what follows `result` of the job's stage. */
void spine_resume(struct job_run *run, enum stage_result result);
/* worker_task.run and worker_task.done of every job. */
void spine_run(struct worker_task *task, struct worker_tools *tools);
void spine_done(struct worker_task *task);
