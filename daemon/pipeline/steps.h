/*
 * steps.h - the stages READ, DECODE and GPU on a worker. Each sets run->error if it fails.
 */
#pragma once

struct job_run;
struct worker_tools;

void steps_read(struct job_run *run, struct worker_tools *tools);
void steps_decode(struct job_run *run, struct worker_tools *tools);
void steps_compute(struct job_run *run, struct worker_tools *tools);
