/* explain_memory.h - gpuimgd --explain: whether the memory that the options allow could ever hold
 * the job, as the daemon finds out when it admits the job. */
#pragma once

#include "daemon/pipeline/job_run.h"

/* Fails the job if a codec, its plan or its animation needs more than its part of host_bytes or
 * pinned_bytes: sets run->error. The job must have a plan, without outputs on devices. */
void explain_memory_check(struct job_run *run, const struct options *options);
/* options_resolve for this machine. */
void explain_memory_resolve(struct options *options);
