/*
 * uploads.h - the stage UPLOAD on the loop: uploads outputs to URLs, before the result is sent.
 *
 * An image of a set also stores its outputs to keys here, one by one (queue_store): the result of
 * its job has no room for them. The clock of timeout_s stands while all uploads wait for their
 * turn, and while keys are stored. The job has released its input, so that other jobs can run
 * meanwhile.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

/* Whether the job has encoded outputs that are not uploaded yet. */
bool uploads_are_due(const struct job_run *run);
/* Uploads them. */
enum stage_result uploads_enter(struct job_run *run);
/* Ends all uploads without a result. Idempotent. */
void uploads_leave(struct job_run *run);
