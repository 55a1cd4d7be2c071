/*
 * line.h - the turns of jobs that wait for memory on the loop, in READ and ADMIT.
 */
#pragma once

struct job_run;
struct pipeline;

/* A zombie returned its memory: jobs with TURN_ASIDE wait in order again, in READ and in ADMIT. */
void line_recall(struct pipeline *pipeline);
/* The job leaves its stage: jobs that wait for the same memory may be tried again. */
void line_leave(struct job_run *run);
