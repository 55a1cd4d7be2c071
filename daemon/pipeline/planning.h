/*
 * planning.h - checks the outputs of a job, and builds its decode request and its plan.
 */
#pragma once

struct job_output;
struct job_run;
struct worker_tools;

/* When the lease arrives: checks the input's URL and all outputs. An error of an output fails
 * only that output; if all outputs fail, the job fails. */
void planning_check(struct job_run *run);
/* The same for an image of a set, whose operations and formats were checked with the job: only the
 * places of its input and its outputs. */
void planning_check_image(struct job_run *run);
/* For an output that is an array: the parameters that the job omits get the format's defaults. */
void planning_set_defaults(struct job_output *output);
/* In READ: chooses formats, decode path and plan from the job and the input's header. */
void planning_build(struct job_run *run, struct worker_tools *tools);
/* The kinds of metadata that an output keeps, without the profile. */
unsigned planning_metadata(const struct job_run *run);
/* Builds the plan again if its passes were dropped before admission. */
void planning_restore(struct job_run *run);
