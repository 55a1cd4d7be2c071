/*
 * decoding.h - the stage DECODE: decodes the input into the reserved memory, or prepares it for a
 * device.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

/* On a worker. Sets run->error if it fails. */
enum stage_result decoding_run(struct job_run *run, struct worker_tools *tools);
/* On the loop: releases the decoder's memory, and a file that no device needs. */
void decoding_leave(struct job_run *run);
