/*
 * state.h - the state of the pipeline: its parts, the lists of its jobs, and what they wait for.
 *
 * pipeline.c creates it. The files of this folder use it on the loop; other threads use the members
 * with locks of their own, and the atomic ones.
 */
#pragma once

#include <stdatomic.h>
#include <uv.h>

#include "conf/list.h"
#include "conf/ranks.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/disk.h"
#include "daemon/pipeline/dispatch.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/telemetry/job_stages.h"

struct pipeline {
    struct pipeline_parts parts;
    void (*resume)(struct job_run *run, enum stage_result result); /* spine_resume */
    void (*begin)(struct job_run *run, enum outcome outcome);      /* spine_begin */
    struct group *group; /* NULL before the start and after the end */
    struct job_run *images; /* slots of images of sets: IMAGES_PER_JOB for each of `runs` */
    size_t image_slots;
    struct list free_images;
    struct list sets; /* of struct image_set, from STAGE_SET until their images have ended */
    uint32_t sets_active, sets_max;
    uint32_t animations_active, animations_max; /* of these sets */
    uint32_t packs_open;   /* tars and arrays of jobs that Redis has not acknowledged */
    bool has_places;       /* that were offered to the queue last */
    uint64_t made_room_ns; /* when a set that waits for its turn last went back to make room */
    uint64_t pumped_ns;   /* when set_stage_pump last began: one look at the clock for all images */
    bool gathers;         /* while sets begin images: these go to the workers together, with one
                             lock and one wake-up */
    struct list gathered; /* their worker tasks */
    uint32_t spare;      /* slots for those that a slow shard holds: queue/lease/group.h */
    struct pool *file_pool; /* input files and overlays: plain pages, half of host_bytes */
    struct overlays *overlays; /* in file_pool */
    struct admission admission;
    struct dispatch dispatch;
    struct list computed[DEVICES_MAX]; /* worker tasks of jobs that the device returns: only its
                                          thread uses the list */
    struct disk disk;

    _Atomic uint32_t inflight; /* jobs on any list except `free` */
    size_t text_bytes; /* of the texts of all jobs in flight; JOB_TEXTS_BYTES at most */
    struct job_run *runs; /* options->inflight + ahead_max + spare slots */
    struct list free;
    struct list stages[STAGE_COUNT];
    struct list zombies;

    struct ranks ranks; /* of the jobs: their order in each line */
    double image_ms;    /* the same of an image of a set; 0: unknown */
    double job_ms;      /* a worker's time per job, a moving average; negative: unknown */
    bool paused;
    _Atomic bool failed; /* set on the loop; a worker checks it before each stage */
    _Atomic uint32_t inputs_open; /* files that jobs have open, also archives from Redis */
    uint32_t inputs_open_max;     /* that may stay open after the read */
    bool reads_wait;              /* line_pump must look for reads that are not started */
    uint64_t files_given; /* number of times that an input's memory was returned to the pool */
    uint64_t moved_ns;    /* when a job last passed admission or ended */
    bool wakes;           /* something may have freed memory or a slot: set by pipeline_wake */
    uv_prepare_t prepare; /* starts all jobs that can start, if `wakes` */
    uv_timer_t tick;
    uint64_t ticked_ns;
    uint64_t awake_ns; /* when the process last resumed after a stop (SIGSTOP), or 0 */
    uint64_t hung_ns;  /* since when hanging workers occupy all threads or slots, or 0 */
    void (*drained)(void *context);
    void *drained_context;
};

/* Starts all jobs that can start, before the loop waits again. Call it after each event that may
 * have freed memory or a slot. */
static inline void pipeline_wake(struct pipeline *pipeline)
{
    pipeline->wakes = true;
}

/* Continues a job that the loop owns, after the event for which it waited. The only way by which
 * callbacks, timers and other jobs move a job. Stages cannot call spine.c, which includes them. */
static inline void pipeline_resume(struct job_run *run, enum stage_result result)
{
    run->pipeline->resume(run, result);
}
