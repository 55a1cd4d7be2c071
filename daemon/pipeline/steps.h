/*
 * steps.h - the stages READ, DECODE and GPU on a worker. Each sets run->error if it fails.
 */
#pragma once

struct job_run;
struct worker_tools;

void job_run_read(struct job_run *run, struct worker_tools *tools);
void job_run_decode(struct job_run *run, struct worker_tools *tools);
void job_run_compute(struct job_run *run, struct worker_tools *tools);
