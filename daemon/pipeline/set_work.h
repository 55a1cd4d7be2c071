/*
 * set_work.h - what a worker does for a job with many images: opens its source, reads the members
 * of an archive, and writes tars and arrays.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

struct files_spool;
struct image_set;

/* For the owner of the set. */
/* Whether the ring has room for what the source gives next. */
bool set_work_can_read(const struct image_set *set);
/* Puts what the source gives next into the ring. */
void set_work_read_one(struct image_set *set, struct error *error);
/* Whether a worker has something to do for the set. On the loop. */
bool set_work_is_due(struct image_set *set);

/* One step of the job, on a worker: writes the images that are done, reads the next ones, and at
 * the end puts the tars and arrays in their places. Errors are those of the job: run->error. */
void set_work(struct job_run *run, struct worker_tools *tools);
/* On a worker, after a write or read of the spool has failed: closes it, and finds out whether the
 * disk is at fault (encoding_judge_disk). */
void set_work_judge_spool(struct job_run *run, struct files_spool *spool,
                          struct worker_tools *tools);
