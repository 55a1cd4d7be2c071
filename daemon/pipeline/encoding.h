/*
 * encoding.h - the stage ENCODE on a worker: encodes each output into a file or a Redis value. Sets
 * run->error if it fails. After it, spine_run frees the plan, writes the result (ack.h) and
 * releases the reserved memory; then the job goes back to the loop for UPLOAD and ACK.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

/* On the loop, after the stage: frees the input's file. Until then an output may be made
 * of it (recompress). */
void encoding_leave(struct job_run *run);
enum stage_result encoding_run(struct job_run *run, struct worker_tools *tools);
/* After outputs that could not be written, perhaps because of the disk: finds out whether the disk
 * works. If it does, the job itself has failed. Sets run->disk_error and run->lacks_room. */
void encoding_judge_disk(struct job_run *run, bool is_full, struct worker_tools *tools);
