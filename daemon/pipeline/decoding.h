/*
 * decoding.h - the stage DECODE: decodes the input into the reserved memory. For a device, reads
 * the file into that memory, and adds its frame and the headers of the outputs.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

/* On a worker. Sets run->error if it fails. */
enum stage_result decoding_run(struct job_run *run, struct worker_tools *tools);
/* On the loop, and only for a job that returns to it after this stage: releases the decoder's
 * memory, and a file that no device needs. A job that a worker carries on keeps
 * the decoder's memory until spine_run releases all reserved memory after ENCODE, and the file
 * until ACK (release.h). */
void decoding_leave(struct job_run *run);
