/*
 * uploads.h - uploads outputs to URLs after the stage ENCODE, before the result is sent.
 *
 * The loop owns the job meanwhile. The clock of timeout_s goes on.
 */
#pragma once

#include <stdbool.h>

struct job_run;

/* Whether the job has encoded outputs that are not uploaded yet. */
bool uploads_are_due(const struct job_run *run);
/* Uploads them. The job stays in the stage ENCODE, owned by the loop, and goes on to ACK at the
 * end. */
void uploads_start(struct job_run *run);
/* Ends all uploads without a result. Idempotent. */
void uploads_cancel(struct job_run *run);
