/*
 * release.h - frees what a job holds: parts of it at the end of its stages, all of it at its end.
 */
#pragma once

struct job_run;

/* Frees the plan and the metadata. Idempotent. */
void release_plan(struct job_run *run);
/* Frees all memory except the job's text and its results, and closes the input's file. Idempotent.
 */
void release_memory(struct job_run *run);
/* Frees values, encoded outputs, and the result that a worker has written. Idempotent. */
void release_results(struct job_run *run);
/* Frees everything that the job holds. */
void release_job(struct job_run *run);
/* The same, and frees its slot. */
void release_slot(struct job_run *run);
