/*
 * encoding.h - the stage ENCODE on a worker: encodes each output into a file or a Redis value. Sets
 * run->error if it fails.
 */
#pragma once

struct job_run;
struct worker_tools;

void encoding_run(struct job_run *run, struct worker_tools *tools);
