/*
 * admission.h - the memory that jobs hold from before they are decoded until Redis has the result.
 *
 * A job needs memory of two kinds: pinned memory of the engine's pool, and heap, for which three
 * eighths of host_bytes are a lane. The lane counts the codecs' own memory, the plan, the
 * colour profile, and the results that Redis must acknowledge: values, and outputs that go to keys.
 * The last ones stay counted after admission_release, until admission_settle.
 *
 * Exact, and first come, first served: a job gets all that it needs at once, and while one waits
 * nobody else is let past, unless it waits for memory of abandoned jobs alone. On the loop the
 * jobs in STAGE_ADMIT try in their order; a worker that carries a small job on by itself tries
 * once, and only where nobody waits. What a job holds is given back on the loop, or by the worker
 * that carried it to its end. What no worker can begin soon would take memory for nothing, which
 * the pools then keep: beyond `jobs_now` admitted jobs a large one is let in only where it needs no
 * new memory, and beyond `jobs_max` any one only where all are small together. All functions may be
 * called on any thread, by the owner of the job.
 */
#ifndef GPUIMGD_DAEMON_PIPELINE_ADMISSION_H
#define GPUIMGD_DAEMON_PIPELINE_ADMISSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "gpu/engine/engine.h"

struct job_run;

struct admission {
    struct engine *engine;
    pthread_mutex_t lock;                /* guards what follows */
    size_t lane_bytes, lane_bytes_max;   /* heap that is reserved, and may be */
    size_t line;                         /* jobs that wait, or are on their way to wait */
    size_t jobs, jobs_now, jobs_max;     /* that hold memory */
    size_t bytes;                        /* which they have asked for */
    bool is_short;                       /* memory is what the last one that was refused lacked */
};

/* jobs_now: how many can be under way at once; jobs_max: and how many wait for that beside them. */
void admission_open(struct admission *admission, struct engine *engine, size_t lane_bytes_max,
                    size_t jobs_now, size_t jobs_max);
void admission_close(struct admission *admission);

/* Of the lane. */
struct pool_usage admission_usage(const struct admission *admission);

/* Whether those in the line wait for memory, and not for others to end. */
bool admission_is_short(const struct admission *admission);

/* Takes a place in the line, unless the job has one. */
void admission_wait(struct job_run *run);

/* For the first in the line. true: admitted, or failed for good (run->error); false: must wait. */
bool admission_try(struct job_run *run);
/* For a job that is not in the line, on the worker that shall carry it on: as admission_try where
 * nobody waits; else, and where there is no room, it is in the line. */
bool admission_pass(struct job_run *run);

/* For a job that admission_try has just refused. true: no job that goes on holds memory, so that
 * abandoned ones have what it lacks; it has left the line, and admission_wait puts it back. */
bool admission_step_aside(struct job_run *run);

/* All memory that the job needs at most. */
size_t admission_need(const struct job_run *run);
/* What was decoded needs no decoder any more: keeps what the encoder will take, and the results. */
void admission_keep_encoder(struct job_run *run);
/* While an output that goes to a key is encoded: that many bytes more than were reserved for it.
 * Never waits; false: the lane has no room now. */
bool admission_extend(struct job_run *run, size_t bytes);
/* Gives all of it back but reserved.results_bytes, the place in the line too. Idempotent. true: the
 * next job in the line may wait for it. */
bool admission_release(struct job_run *run);
/* Gives back what the results took, after they were freed. Idempotent. */
void admission_settle(struct job_run *run);
/* The job was answered while a worker or the engine has it: it keeps its memory, and no longer
 * counts as one that goes on. */
void admission_abandon(struct job_run *run);

#endif
