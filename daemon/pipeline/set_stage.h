/*
 * set_stage.h - STAGE_SET: a job with many images (image_set.h) waits here while they run.
 *
 * On the loop, set_stage_pump begins images and frees items. A worker reads the archive, and writes
 * tars and arrays, one step after the other: the task of the job's own run. An image stays in this
 * stage until its outputs are in their tar or array.
 *
 * At most pipeline->sets_max sets are active, and of them animations_max animations. The others
 * wait for their turn with an open file at most. The active ones share the slots of images.
 */
#pragma once

#include "daemon/pipeline/job_run.h"
#include "daemon/telemetry/snapshot.h"

/* For the table of stages: of a job with many images, and of an image. */
enum stage_result set_stage_enter(struct job_run *run);
enum stage_result set_stage_run(struct job_run *run, struct worker_tools *tools);
void set_stage_leave(struct job_run *run);

/* The last step of READ of a job with many images, on a worker: stores an archive from a key or a
 * URL in a file. */
enum stage_result set_stage_read(struct job_run *run, struct worker_tools *tools);
/* A worker has returned the job, which stays in the stage, or has carried an image to it. */
void set_stage_returned(struct job_run *run);
/* An image that a worker has carried here: whether it waits until it is in its tar or array. */
bool set_stage_waits(struct job_run *run);
/* Moves all sets on. pipeline.c calls it as line_pump. */
void set_stage_pump(struct pipeline *pipeline);
/* Fills in the snapshot's members about jobs with many images. */
void set_stage_look(struct pipeline *pipeline, struct snapshot *snapshot);
/* The job is cancelled or its lease is lost, in STAGE_SET: its images end, and they place, upload
 * and store nothing more. The job itself ends when its worker returns it. */
void set_stage_stop(struct job_run *run);
/* The job becomes a zombie: its images end. */
void set_stage_abandon(struct job_run *run);
/* Returns to the queue the jobs that wait for their turn since before now_ns. */
void set_stage_send_back(struct pipeline *pipeline, uint64_t now_ns);
