/*
 * reads.h - the stage READ on the loop: loads inputs from files, Redis keys or URLs into the file
 * pool.
 *
 * A job has up to three steps here; start_read chooses the next one:
 *
 *   overlay   for each key of an overlay that is not in memory: reads it (input.reading is set),
 *             then a worker makes the overlay
 *   load      if the input is a key or a URL: reads it (input.reading is set)
 *   work      a worker takes the input, or the head of a file, into the file pool, and plans the
 *             job. The job goes on to ADMIT, or with the same worker beyond
 *
 * A worker that lacks memory for an overlay or an input gives the job back. Its turn says how it
 * waits for memory of others:
 *
 *   refused   at the head of the line: later jobs wait, too, except those that hold overlays.
 *             reads_pump starts it again when memory was given back
 *   aside     only zombies hold the memory (answered jobs whose worker still uses it): later jobs
 *             pass. When a zombie has returned its memory, the job is refused again (line_recall)
 *
 * A job that waits may have to drop the input that it has loaded (free_budget_for); it loads it
 * again. While reads_wait is true, new jobs wait for reads_pump, which starts them in the order of
 * conf/rank.h, unless they overtake all that wait.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

enum stage_result reads_enter(struct job_run *run);
/* Starts waiting reads while there is room. */
void reads_pump(struct pipeline *pipeline);
/* A worker found no room for the job's input: the job waits for room. */
void reads_refuse(struct job_run *run);
/* Ends the read of a key, or the download. */
void reads_leave(struct job_run *run);
