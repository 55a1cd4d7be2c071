/*
 * release.h - frees what a job holds: parts of it at the end of its stages, all of it at its end.
 */
#pragma once

struct job_run;

/* Frees the plan and the metadata. Idempotent. */
void job_run_drop_plan(struct job_run *run);
/* Frees all memory except the job's text and its results. Idempotent. */
void job_run_release(struct job_run *run);
/* Frees values, encoded outputs, and the result that a worker has written. Idempotent. */
void job_run_drop_results(struct job_run *run);
/* Frees everything that the job owns. */
void job_run_clear(struct job_run *run);
/* Frees the job and its slot. */
void stages_recycle(struct job_run *run);
