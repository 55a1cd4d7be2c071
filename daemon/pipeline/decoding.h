/*
 * decoding.h - the stages DECODE and GPU on a worker. Each sets run->error if it fails.
 */
#pragma once

struct job_run;
struct worker_tools;

void decoding_run(struct job_run *run, struct worker_tools *tools);
/* On the CPU engine: runs the passes of the plan. */
void decoding_compute(struct job_run *run, struct worker_tools *tools);
