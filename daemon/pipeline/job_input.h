/*
 * job_input.h - the bytes, the file and the parts of budgets that a job holds for its input.
 */
#pragma once

struct job_run;

/* Releases the input's memory. Idempotent. */
void job_input_release(struct job_run *run);
/* Closes the input's file. Idempotent. Any thread, by the owner of the job. */
void job_input_close(struct job_run *run);
/* Returns the budget of the queue or the fetcher for the input. Idempotent. */
void job_input_end_key(struct job_run *run);
/* The same for the bytes of an overlay's key; idempotent. */
void job_input_end_overlay(struct job_run *run);
/* Frees the bytes that were read from keys or a URL, and returns their budget. Idempotent. */
void job_input_drop_loaded(struct job_run *run);
