/*
 * give_back.h - returns jobs to the queue: at the end of a drain, or after a fault.
 */
#pragma once

struct pipeline;

/* The disk has failed: returns jobs to the queue that write files and wait for a stage up to
 * DECODE. */
void pipeline_give_back_files(struct pipeline *pipeline);
