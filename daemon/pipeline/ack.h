/*
 * ack.h - writes the result; the stage ACK: sends DONE or NACK, and updates the metrics.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

/* On the worker that encoded: writes the result if the job is done. The loop drops it if the job
 * ends in another way after all, for example by a cancel. */
void ack_write_result(struct job_run *run);
enum stage_result ack_enter(struct job_run *run);
void ack_settled(void *context, struct lease *lease, bool stale, bool dead);
/* Answers a job that a worker or the engine still owns, and makes it a zombie. error NULL: the job
 * goes back to the queue instead. */
void ack_abandon(struct job_run *run, const struct error *error);
