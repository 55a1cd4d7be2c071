/*
 * pipeline_impl.h - private declarations shared by the files of the pipeline.
 *
 * pipeline.c owns the slots and the lists. stage.c moves a job to a stage, and spine.c chooses the
 * stage. ask.c, reads.c, admit.c, uploads.c and ack.c implement the stages on the loop; steps.c,
 * planning.c and encoding.c those on a worker.
 */
#pragma once

#include "conf/ranks.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/dispatch.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/pipeline/job_run.h"

enum disk_verdict {
    DISK_WORKS,
    DISK_LACKS_ROOM, /* for the outputs that failed; a small file fits */
    DISK_FAILS
};

/* Whether output_root can be written. */
struct disk {
    struct pipeline *pipeline;
    _Atomic uint64_t tries;
    _Atomic int64_t occupied; /* bytes, by outputs that workers write at this moment */
    _Atomic uint64_t wanted;  /* the most bytes that did not fit, since that much fitted */
    uv_timer_t timer;        /* until the next try */
    struct worker_task task;
    bool trying;             /* the task is submitted; its worker owns `found` */
    struct error found;

    bool failed;
    bool changed;            /* `failed` was set or reset since the last pump of the pipeline */
    struct error error;      /* while failed: the error of the last try */
    double delay_s;          /* before the next try */
    uint64_t failed_ns, worked_ns; /* time of the last change to failed, and to working */
};

struct pipeline {
    struct pipeline_parts parts;
    const struct stage_row *table; /* of the stages: STAGE_COUNT rows */
    struct group *group; /* NULL before the start and after the end */
    uint32_t spare;      /* slots for jobs that have ended, but whose shard is away */
    struct pool *file_pool;
    struct overlays *overlays; /* in file_pool */
    struct admission admission;
    struct dispatch dispatch;
    struct disk disk;

    _Atomic uint32_t inflight; /* jobs on any list except `free` */
    size_t text_bytes; /* of the texts of all jobs in flight; JOB_TEXTS_BYTES at most */
    struct job_run *runs; /* options->inflight + ahead_max + spare slots */
    struct list free;
    struct list stages[STAGE_COUNT];
    struct list zombies;

    struct ranks ranks; /* of the jobs: their order in each line */
    double job_ms;      /* a worker's time per job, a moving average; negative: unknown */
    bool paused;
    _Atomic bool failed; /* set on the loop; a worker checks it before each stage */
    _Atomic uint32_t inputs_open; /* files that jobs have open */
    uint32_t inputs_open_max;     /* that may stay open after the read */
    bool reads_wait;   /* reads_pump must look for reads that are not started */
    bool read_stalled; /* the first waiting read needs more memory than is free */
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

struct stage_row {
    void (*enter)(struct job_run *run); /* on the loop, when a job enters the stage */
    void (*run)(struct job_run *run, struct worker_tools *tools); /* on a worker; may be NULL */
    /* On the loop, which owns the job: ends what the job waits for. NULL: nothing. Idempotent. */
    void (*leave)(struct job_run *run);
    uint32_t priority; /* of its worker_task */
};

/* pipeline.c */

/* Starts all jobs that can start, before the loop waits again. Call it after each event that may
 * have freed memory or a slot. */
static inline void pipeline_wake(struct pipeline *pipeline)
{
    pipeline->wakes = true;
}

/* stage.c */

/* Moves a job that the loop owns, or a new one, to a stage and enters the stage. */
void stages_move(struct job_run *run, enum stage stage);
/* Decides the outcome and moves the job to ACK. */
void stages_end(struct job_run *run, enum outcome outcome);
/* Takes the job back from a worker, at the stage that the worker has reached. */
void stages_return(struct job_run *run);
/* The lease has ended while a worker or the engine still owns the job. */
void stages_make_zombie(struct job_run *run);
/* Takes a waiting job back to the loop. false: a worker or the engine is running it. */
bool job_run_withdraw(struct job_run *run);

/* A worker runs the stage of the job, which the loop owns. */
void job_run_start_task(struct job_run *run);
/* Any thread: a worker runs the job, with the priority of the stage. */
void stages_submit(struct job_run *run, enum stage stage);
/* On a worker: runs the stage that the job has reached. */
void stages_run(struct job_run *run, struct worker_tools *tools);
/* On a worker, which goes on with the given stage. */
void stages_carry_to(struct job_run *run, enum stage stage);
/* The job reaches the stage: tests can end the daemon here. */
void stages_reach(const struct job_run *run, enum stage stage);

/* spine.c */

extern const struct stage_row stages_table[STAGE_COUNT];
/* worker_task.run and worker_task.done of every job. */
void job_run_task_run(struct worker_task *task, struct worker_tools *tools);
void job_run_task_done(struct worker_task *task);

/* lease_events.c: the queue's events */

void lease_events_leased(void *context, struct lease *lease);
void lease_events_lost(void *context, struct lease *lease);
void lease_events_start_decided(void *context, struct lease *lease, enum start_decision decision,
                                const char *kept);

/* ask.c: the stage ASK. lease_events_start_decided gets the answer. */

void job_run_enter_ask(struct job_run *run);

/* reads.c: the stage READ on the loop */

void reads_enter(struct job_run *run);
/* Starts waiting reads while there is room. */
void reads_pump(struct pipeline *pipeline);
/* A worker found no room for the job's input: the job waits for room. */
void reads_refuse(struct job_run *run);
/* Ends the read of a key, or the download. */
void reads_leave(struct job_run *run);

/* line.c */

/* A zombie returned its memory: jobs with TURN_ASIDE wait in order again, in READ and in ADMIT. */
void reads_recall(struct pipeline *pipeline);
void admission_recall(struct pipeline *pipeline);
/* The job leaves its stage: jobs that wait for the same memory may be tried again. */
void stages_leave_line(struct job_run *run);

/* admit.c: the stage ADMIT on the loop */

/* Admits jobs while there is memory. */
void admission_pump(struct pipeline *pipeline);

/* job_input.c: what a job holds for its input */

/* Whether a worker found no room for the job's input, or for an overlay. */
bool job_run_lacks_room(const struct job_run *run);
/* Releases the input's memory. Idempotent. */
void reads_release(struct job_run *run);
/* Closes the input's file. Idempotent. Any thread, by the owner of the job. */
void reads_close(struct job_run *run);
/* Returns the budget of the queue or the fetcher for the input. Idempotent. */
void reads_end_key(struct job_run *run);
/* The same for the bytes of an overlay's key; idempotent. */
void reads_end_overlay(struct job_run *run);
/* Frees the bytes that were read from keys or a URL, and returns their budget. Idempotent. */
void reads_drop_loaded(struct job_run *run);

/* job_outputs.c */

/* The job fails with the first output's error if each output has one. */
void job_run_fail_if_all_failed(struct job_run *run);
/* Sets run->error to the first retryable error of an output, or else to the first one. */
void job_run_judge_outputs(struct job_run *run);
/* Sets the error STATUS_CANCELLED after the stage in which the job was cancelled. Keeps an error
 * that is not retryable, and the success of a job whose outputs are all complete. */
void job_run_end_cancelled(struct job_run *run);
/* The request to encode an output; changes the metadata in run->info to fit it. */
struct encode_request job_run_encode_request(struct job_run *run, size_t index);

/* release.c */

/* Frees the plan and the metadata. Idempotent. */
void job_run_drop_plan(struct job_run *run);
/* Frees all memory except the job's text and its results. Idempotent. */
void job_run_release(struct job_run *run);
/* Frees values, encoded outputs, and the result that a worker has written. Idempotent. */
void job_run_drop_results(struct job_run *run);
/* Frees everything that the job owns. */
void job_run_clear(struct job_run *run);
/* Frees the job and its slot. */
void stages_recycle(struct job_run *run);

/* steps.c, planning.c, encoding.c: the stages on a worker. Each sets run->error if it fails. */

void job_run_read(struct job_run *run, struct worker_tools *tools);
void job_run_decode(struct job_run *run, struct worker_tools *tools);
void job_run_compute(struct job_run *run, struct worker_tools *tools);
void job_run_encode(struct job_run *run, struct worker_tools *tools);
/* route.c: which codecs of the job run on its device */

/* Chooses for the decoder and each output, and charges the job to the cores or a device. Returns
 * the file for the device to decode, or none. tools NULL: there is no engine. */
struct plan_file route_choose(struct job_run *run, struct worker_tools *tools);
/* Chooses the host for all, and charges the job to the cores. Returns no file. */
struct plan_file route_to_host(struct job_run *run);
/* The charge ends. Idempotent. */
void route_end(struct job_run *run);
/* Whether the plan's memory can ever be reserved, or no codec runs on a device. */
bool route_fits(const struct job_run *run);
/* If a device decodes: puts the file and its frame into the input buffer. false: run->error is set.
 */
bool route_put_file(struct job_run *run, struct worker_tools *tools);
/* If a device encodes: puts the headers of the outputs into the input buffer. false: run->error is
 * set. */
bool route_put_headers(struct job_run *run, struct worker_tools *tools);
/* After the device: whether it has declined the file, or a result is larger than its capacity. */
bool route_was_declined(const struct job_run *run);

/* Builds the plan again if its passes were dropped before admission. */
void job_run_restore_plan(struct job_run *run);

/* uploads.c: outputs to URLs, on the loop after the stage ENCODE */

/* Whether the job has encoded outputs that are not uploaded yet. */
bool uploads_are_due(const struct job_run *run);
/* Uploads them. The job stays in the stage ENCODE, owned by the loop, and goes on to ACK at the
 * end. */
void uploads_start(struct job_run *run);
/* Ends all uploads without a result. Idempotent. */
void uploads_cancel(struct job_run *run);

/* ack.c: the result, and the last stage, DONE or NACK */

/* On the worker that encoded: writes the result if the job is done. The loop drops it if the job
 * ends in another way after all, for example by a cancel. */
void job_run_write_result(struct job_run *run);
void job_run_enter_ack(struct job_run *run);
void ack_settled(void *context, struct lease *lease, bool stale, bool dead);
/* Answers a job that a worker or the engine still owns, and makes it a zombie. error NULL: the job
 * goes back to the queue instead. */
void job_run_abandon(struct job_run *run, const struct error *error);

/* deadline.c */

void pipeline_on_tick(uv_timer_t *timer);

/* give_back.c */

/* The disk has failed: returns jobs to the queue that write files and wait for a stage up to
 * DECODE. */
void pipeline_give_back_files(struct pipeline *pipeline);

/* disk.c */

void disk_open(struct pipeline *pipeline);

/* Whether this errno of a write can mean that the disk is at fault. Any thread. */
bool disk_may_be_why(int reason);
/* Whether this errno means that the disk, or a quota, has no room. Any thread. */
bool disk_is_full(int reason);
/* On a worker: changes the room that current outputs occupy: the bytes of their writes, and
 * SINK_BYTES each for a part of the next one. */
void disk_occupy(struct disk *disk, int64_t bytes);
/* On a worker: an output could not be written, and its partial file still exists. Sets `wanted` to
 * the room that all current outputs occupy, at least: outputs that fail now free that much room. */
void disk_lack_room(struct disk *disk);
/* On a worker, after a write has failed and its partial file is gone: writes and syncs a small file
 * below output_root, and deletes it. is_full: the disk had no room; if it has `wanted` bytes now,
 * the job itself has failed, and `wanted` is reset. buffer: the worker's sink, overwritten. error:
 * set if DISK_FAILS. */
enum disk_verdict disk_try(struct disk *disk, bool is_full, uint8_t *buffer,
                           struct error *error) MUST_CHECK;

/* Stops fetching until outputs can be written. false: the disk had failed already. */
bool disk_fail(struct disk *disk, const struct error *error);

/* trace_hooks.c: times of a traced job go into run->trace, and at its end into the trace file */

void trace_hooks_begin(struct job_run *run);
void trace_hooks_run(struct job_run *run, uint32_t worker, uint64_t begin_ns, uint64_t end_ns);
void trace_hooks_admit(struct job_run *run, uint64_t begin_ns, uint64_t admitted_ns);
void trace_hooks_task(struct job_run *run);
void trace_hooks_end(struct job_run *run);
