/*
 * set_image.h - the run of one image of a set (image_set.h): a struct job_run without a lease.
 *
 * Loop only, unless a comment says otherwise.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

struct image_set;
struct set_item;

/* Begins the run of the item, which is ITEM_READ. false: there is no free slot. */
bool set_image_begin(struct image_set *set, struct set_item *item);
/* On the worker that has encoded the image: whether it has no upload and no error, so that this
 * worker carries it to STAGE_SET. Releases what the image does not need any more: the loop would
 * take longer, because these members are in the caches of the worker. */
bool set_image_joins(struct job_run *run);
/* STAGE_ACK of the run, or STAGE_SET: tells the set how the image has ended, and frees the slot. */
void set_image_end(struct job_run *run);
/* The worker of the image hangs, or the daemon gives all jobs back: the run becomes a zombie.
 * error: NULL: the job returns to the queue. */
void set_image_abandon(struct job_run *run, const struct error *error);
