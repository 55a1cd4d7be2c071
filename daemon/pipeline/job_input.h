/*
 * job_input.h - the bytes, the file and the parts of budgets that a job holds for its input.
 */
#pragma once

#include <stdint.h>

#include "conf/status.h"

struct job_run;
struct workers;

/* Releases the input's memory. Idempotent. */
void job_input_release(struct job_run *run);
/* Only the file's bytes, without counting that in pipeline->files_given. Any thread, by the owner
 * of the job. false: there were none. */
bool job_input_give(struct job_run *run);
/* Closes the input's file. Idempotent. Any thread, by the owner of the job. */
void job_input_close(struct job_run *run);
/* Reads an open input from its byte `from` to its end, to the same offsets of `bytes`, which has
 * room for one byte more. On a worker. workers: idle ones may help; NULL: none. Errors: those of
 * files_read_input. */
enum status job_input_read(struct job_run *run, uint8_t *bytes, uint64_t from,
                           struct workers *workers, struct error *error) MUST_CHECK;
/* Returns the budget of the queue or the fetcher for the input. Idempotent. */
void job_input_end_key(struct job_run *run);
/* The same for the bytes of an overlay's key; idempotent. */
void job_input_end_overlay(struct job_run *run);
/* Frees the bytes that were read from keys or a URL, and returns their budget. Idempotent. */
void job_input_drop_loaded(struct job_run *run);
