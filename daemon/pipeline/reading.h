/*
 * reading.h - the stage READ on a worker: reads the input or an overlay, and plans the job. Sets
 * run->error if it fails.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

enum stage_result reading_run(struct job_run *run, struct worker_tools *tools);
