/*
 * give_back.h - returns jobs to the queue: at the end of a drain, or after a fault.
 */
#pragma once

struct pipeline;

/* The disk has failed: returns jobs to the queue that write files and wait for a stage up to
 * DECODE. */
void give_back_files(struct pipeline *pipeline);
/* Returns every job without a result; a job that a worker runs becomes a zombie. */
void give_back_all(struct pipeline *pipeline);
/* Returns jobs that wait for a stage up to DECODE. */
void give_back_waiting(struct pipeline *pipeline);
