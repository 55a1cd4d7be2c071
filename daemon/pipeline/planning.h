/*
 * planning.h - checks the outputs of a job, and builds its decode request and its plan.
 */
#pragma once

struct job_run;
struct worker_tools;

/* When the lease arrives: checks the input's URL and all outputs. An error of an output fails
 * only that output; if all outputs fail, the job fails. */
void planning_check(struct job_run *run);
/* In READ: chooses formats, decode path and plan from the job and the input's header. */
void planning_build(struct job_run *run, struct worker_tools *tools);
/* The kinds of metadata that an output keeps, without the profile. */
unsigned planning_metadata(const struct job_run *run);
/* Builds the plan again if its passes were dropped before admission. */
void planning_restore(struct job_run *run);
