/*
 * line.h - the jobs that wait for memory on the loop: in READ for room in the file pool, in ADMIT
 * for what admission.h reserves. Each stage has a line, in the order of conf/rank.h.
 *
 * The turn of a job says how it waits:
 *
 *   in order   it is tried after all before it
 *   refused    it was tried, and memory was short: later jobs wait, too. It is tried again when
 *              memory may have been given back
 *   aside      only zombies (answered jobs whose worker still uses the memory) and codecs of
 *              animations hold the memory: later jobs pass. When one has returned its memory, the
 *              job is refused again (line_recall)
 *
 * A worker finds out that a read lacks room, because only then the size of a file is known. While
 * the read of a refused job is tried again, later jobs wait. Otherwise small files would take all
 * the room that a large file waits for. Only jobs that hold overlays do not wait: the jobs before
 * them may need their memory, or their part of the queue's budget.
 */
#pragma once

#include "daemon/pipeline/job_run.h"
#include "daemon/telemetry/blocked.h"

/* For the table of stages. A new read starts at once if none waits, or if it overtakes all. */
enum stage_result line_enter_read(struct job_run *run);
enum stage_result line_enter_admit(struct job_run *run);
/* Starts the reads and admits the jobs for which there may be memory. pipeline.c calls it before
 * the loop waits if pipeline_wake was called, also after each batch of finished tasks of
 * workers: a job that a worker has just brought to ADMIT is tried in the same turn. */
void line_pump(struct pipeline *pipeline);
/* A worker found no room for the job's input or an overlay. */
void line_rejoin(struct job_run *run);
/* A zombie returned its memory: jobs that stepped aside wait in order again. */
void line_recall(struct pipeline *pipeline);
/* The job leaves its stage: its turn ends. Its part in admission.h does not change. */
void line_leave(struct job_run *run);
/* Whether the first job that waits for memory waits for nothing that other jobs will release. */
bool line_is_stuck(struct pipeline *pipeline);
/* Jobs that wait for memory. */
uint32_t line_length(struct pipeline *pipeline);
/* Sets *memory to what the first waiting job lacks, if one waits for memory. */
void line_look(struct pipeline *pipeline, struct blocked_memory *memory);
