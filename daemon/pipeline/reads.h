/*
 * reads.h - the stage READ on the loop: loads inputs and overlays from Redis keys or URLs.
 *
 * A job passes up to three steps, of which the first may repeat (enum read_step):
 *
 *   overlay   for each key of an overlay that is not in memory: reads it, then a worker makes the
 *             overlay
 *   input     if the input is a key or a URL: reads it
 *   plan      a worker takes the input into the file pool, or reads only the head of a file that a
 *             device may decode, and plans the job. The job goes on to ADMIT, or beyond with the
 *             same worker if it carries the job (spine.c)
 *
 * Without keys and URLs there is only the last step, in which a worker reads the file.
 *
 * A worker that lacks memory for an overlay or an input gives the job back to the line (line.h). A
 * job that waits there may have to drop the input that it has loaded; it loads it again.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

/* Starts the next step. */
enum stage_result reads_start(struct job_run *run);
/* Ends the read of a key, or the download. */
void reads_leave(struct job_run *run);

/* Whether reads_free_budget would drop the job's input right after it is read. The job must then
 * wait until the jobs for which others wait have read theirs. */
bool reads_must_yield(const struct job_run *run);
/* If jobs for which others wait need the budgets for keys or downloads: frees them. */
void reads_free_budget(struct pipeline *pipeline);
