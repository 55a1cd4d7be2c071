/*
 * admission.h - reserves the memory of a job before the job is decoded.
 *
 * A job reserves two kinds of memory: pinned memory from the engine's pool, and heap. The heap
 * budget, called the lane, is three eighths of host_bytes. It covers the codecs, the plan, the
 * colour profile and the results. Results are values and outputs to Redis keys or URLs. Their
 * memory stays reserved after admission_release: admission_settle releases it when Redis has
 * acknowledged them.
 *
 * A job gets all of its memory at once. Waiting jobs form a line and are admitted in the order of
 * conf/rank.h: while a job waits, those after it wait, too. A zombie is an answered job whose
 * worker or engine still uses its memory (job_run.h). A job that needs the memory of zombies leaves
 * the line until a zombie returns its memory. A job that needs the memory of an animation's codec
 * leaves it until the animation has ended. Otherwise the frames would wait behind the job for ever.
 * Until it is admitted, no other animation begins. These codecs have at most half of the lane, and
 * a frame gets at most the other half, so that no frame ever needs their memory.
 *
 * The loop admits the jobs of STAGE_ADMIT. A worker that carries a job from READ to DECODE admits
 * it by itself if the line is empty; spine.c says which: small jobs, and those that a device
 * decodes. The owner of a job releases its memory.
 *
 * A job that no worker can start soon would only hold memory. Therefore a job is admitted only if
 * one of these conditions holds:
 * - a device decodes and encodes it, or decodes it and encodes an AVIF: devices run many jobs at
 *   once. These do not count below, and neither do jobs of lower priorities, because the job
 *   overtakes them at the workers;
 * - fewer than jobs_now jobs are admitted;
 * - all admitted jobs and this job together need at most SMALL_JOB_BYTES * jobs_max bytes;
 * - fewer than jobs_max jobs are admitted, and this job needs at most SMALL_JOB_BYTES or fits into
 *   free pinned memory that the engine already holds.
 *
 * Functions that take a job may be called on any thread, by the owner of the job.
 */
#pragma once

#include <pthread.h>

#include "daemon/telemetry/blocked.h"
#include "gpu/engine/engine.h"

struct job_run;

struct admission {
    struct engine *engine;
    pthread_mutex_t lock;                /* guards the members below */
    size_t lane_bytes, lane_bytes_max;   /* reserved heap, and its limit */
    size_t long_bytes;                   /* of them, loans for the codecs of animations */
    bool long_ended;                     /* such a loan has ended: see admission_take_long_end */
    size_t need_long;                    /* jobs that need the memory of such a loan */
    size_t line;                         /* length of the line */
    size_t holders; /* jobs that hold memory, without zombies and parked images */
    size_t parked;
    size_t jobs_now, jobs_max;
    size_t jobs[JOB_PRIORITIES];         /* those that need workers, of each priority */
    size_t bytes[JOB_PRIORITIES];        /* memory that these jobs requested */
    bool is_short;                       /* the last refused job lacked memory */
};

/* The part of host_bytes that is the lane. */
size_t admission_lane_bytes(uint64_t host_bytes);
/* Fails a job if its decoder, or an encoder, needs more than the whole lane. It must have a plan.
 * If an encoder needs more because of an alpha, the job goes on without this memory, and the alpha
 * must turn out to be opaque: only its pixels tell. false: run->error is set. */
bool admission_check(struct job_run *run, size_t lane_bytes_max);

/* jobs_now: jobs that can run at once. jobs_max: those plus the jobs kept ready to follow them. */
void admission_open(struct admission *admission, struct engine *engine, size_t lane_bytes_max,
                    size_t jobs_now, size_t jobs_max);
void admission_close(struct admission *admission);

struct pool_usage admission_usage(struct admission *admission);

/* Whether the jobs in the line wait for memory; false if they wait only for other jobs to end. */
bool admission_is_short(struct admission *admission);

void admission_wait(struct job_run *run); /* puts the job into the line; idempotent */

/* For the first job of the line. true: admitted, or failed with run->error. false: must wait. */
bool admission_try(struct job_run *run);
/* For a job that is not in the line, on its worker. Works like admission_try if the line is empty.
 * While the engine looks for memory, other jobs may pass, and get the memory that this one then
 * lacks. false: the job was put into the line. */
bool admission_pass(struct job_run *run);

/* Whether no job holds memory but results, and images that wait for their tar or array. */
bool admission_is_idle(struct admission *admission);
/* Whether the line waits for memory that no job will release: all of it is held by results, and by
 * images that wait for their tar or array. */
bool admission_is_stuck(struct admission *admission);

/* Sets *memory to what the first job of the line lacks: nothing if it waits only for other jobs to
 * end. */
void admission_look(struct job_run *run, struct blocked_memory *memory);

/* For a job that admission_try has just refused. true: only zombies and codecs of animations hold
 * memory, so the job left the line; admission_wait puts it back. */
bool admission_step_aside(struct job_run *run);

/* Whether the bytes of the output stay in the reserved memory until the set of the image has
 * written them to a tar or an array: they were made there by a device, or by the passes. Only if
 * the job needs no worker: others would wait for its part. */
bool admission_lends_output(const struct job_run *run, size_t index);
size_t admission_encoder_bytes(const struct job_run *run); /* the most that an output needs */
size_t admission_need(const struct job_run *run); /* at most, lane and pinned memory together */
/* After the decode: releases the decoder's memory, keeps the encoder's and the results'. */
void admission_keep_encoder(struct job_run *run);
/* Reserves `bytes` more while an output to a key is encoded. Never waits. false: the lane is full
 * now. */
bool admission_extend(struct job_run *run, size_t bytes);
/* Reserves heap in the lane for a task that has none of its own yet. Never waits. false: the lane
 * has no room now. *exhausted: `bytes` exceeds the whole lane, so waiting cannot help. End each
 * loan. */
bool admission_lend(struct admission *admission, size_t bytes, bool *exhausted);
void admission_end_loan(struct admission *admission, size_t bytes);
/* The same for the codec of an animation, which has it until its last frame. All of these loans
 * together are at most half of the lane, so that the frames find room in the rest. false also while
 * a job waits for the end of such a loan. *exhausted: `bytes` exceeds this half. */
bool admission_lend_long(struct admission *admission, size_t bytes, bool *exhausted);
void admission_end_long(struct admission *admission, size_t bytes);
bool admission_has_long(struct admission *admission);
/* Whether such a loan has ended since the last call. */
bool admission_take_long_end(struct admission *admission);
/* Leaves the line and releases all memory except reserved.results_bytes. Idempotent. true: a job
 * in the line may be waiting for this memory. */
bool admission_release(struct job_run *run);
/* An upload has ended: a result of so many bytes is freed. */
void admission_end_result(struct job_run *run, size_t bytes);
void admission_settle(struct job_run *run); /* the results are freed; idempotent */
/* The image waits for its tar or array, and keeps its memory until admission_release. */
void admission_park(struct job_run *run);
/* Marks the job as a zombie: it keeps its memory until its worker or the engine returns it. */
void admission_abandon(struct job_run *run);
