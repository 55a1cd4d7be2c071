/*
 * set_image.h - the run of one image of a set (image_set.h): a struct job_run without a lease.
 *
 * Loop only, unless a comment says otherwise.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

struct image_set;
struct set_item;

/* On the worker that opens the set: what its images take from the job. */
void set_image_model(struct image_set *set, const struct job_run *owner);
/* On the worker that reads the image, before it starts the clock of timeout_s: takes the job,
 * unless set_image_begin has. The loop does so only if it needs the job, for places that it reads,
 * checks or compares. It would take longer, because these members are in the caches of a worker. */
void set_image_prepare(struct job_run *run);
/* Begins the run of the item, which is ITEM_READ. false: there is no free slot. */
bool set_image_begin(struct image_set *set, struct set_item *item);
/* On the worker that has encoded the image: whether it has no upload and no error, so that this
 * worker carries it to STAGE_SET. Releases what the image does not need any more: the loop would
 * take longer, because these members are in the caches of the worker. */
bool set_image_joins(struct job_run *run);
/* STAGE_ACK of the run, or STAGE_SET: tells the set how the image has ended, and frees the slot. */
void set_image_end(struct job_run *run);
/* Counts the outputs of a finished image for the result: files, keys and URLs, not tars and arrays.
 */
void set_image_count_outputs(const struct job_run *run);
/* The worker of the image hangs, or the daemon gives all jobs back: the run becomes a zombie.
 * error: NULL: the job returns to the queue. */
void set_image_abandon(struct job_run *run, const struct error *error);
