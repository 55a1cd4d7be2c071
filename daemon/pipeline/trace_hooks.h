/*
 * trace_hooks.h - records the times of a job: its stages, waits and GPU work. They go into
 * run->trace, and at the job's end into the trace file.
 *
 * Without a trace, they do nothing: for small images, the record took 2% of the workers' time.
 */
#pragma once

#include <stdint.h>

struct job_run;

void trace_hooks_begin(struct job_run *run);
void trace_hooks_run(struct job_run *run, uint32_t worker, uint64_t begin_ns, uint64_t end_ns);
void trace_hooks_admit(struct job_run *run, uint64_t begin_ns, uint64_t admitted_ns);
void trace_hooks_task(struct job_run *run);
void trace_hooks_end(struct job_run *run);
