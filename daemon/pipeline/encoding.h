/*
 * encoding.h - the stage ENCODE on a worker: encodes each output into a file or a Redis value. Sets
 * run->error if it fails.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

enum stage_result encoding_run(struct job_run *run, struct worker_tools *tools);
