/*
 * pipeline_impl.h - the pipeline as its own files see it.
 *
 * pipeline.c has the places and the lists; lease_events.c turns leases into jobs, checks.c checks
 * their outputs; stages.c moves a job from stage to stage; reads.c, admits.c and ack.c are the
 * stages of the loop, steps.c, planning.c and outputs.c those of a worker; deadline.c ends jobs
 * early; trace_hooks.c fills the records of a trace.
 */
#ifndef GPUIMGD_DAEMON_PIPELINE_PIPELINE_IMPL_H
#define GPUIMGD_DAEMON_PIPELINE_PIPELINE_IMPL_H

#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/disk.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/pipeline/job_run.h"

struct pipeline {
    struct pipeline_parts parts;
    struct queue *queue;
    struct pool *file_pool;
    struct admission admission;
    struct disk disk;

    size_t text_bytes; /* of all jobs in flight: JOB_TEXTS_BYTES at most */
    struct job_run *runs; /* `inflight` and ahead_max of them */
    struct list free;
    struct list stages[STAGE_COUNT];
    struct list zombies; /* answered, but a worker or stream still has them */

    double job_ms;      /* of a worker's time that a job takes: a moving average; < 0: unknown */
    bool paused;
    _Atomic bool failed; /* set on the loop; a worker looks before it begins another stage */
    bool reads_wait;   /* there may be reads that were not started when they came */
    bool read_stalled; /* the first read that waits needs room that is not there */
    uint64_t files_given; /* how often an input's memory went back to the pool */
    uint64_t moved_ns;    /* when a job last came past admission, or to its end */
    uv_timer_t tick;
    uint64_t ticked_ns;
    uint64_t awake_ns; /* when the process last came back from standing still, or 0 */
    void (*drained)(void *context);
    void *drained_context;
};

/* Every stage: how it begins on the loop, and what a worker then does. */
struct stage_row {
    void (*enter)(struct job_run *run);
    void (*run)(struct job_run *run, struct worker_tools *tools);
    uint32_t priority; /* among tasks that wait for a worker */
};
extern const struct stage_row stage_table[STAGE_COUNT];

/* pipeline.c */

/* Starts all that can start now. Called after each event that may have freed something. */
void pipeline_pump(struct pipeline *pipeline);
void pipeline_offer_places(struct pipeline *pipeline);
/* Counts texts of the job from here until its end. */
void pipeline_count_text(struct job_run *run, size_t bytes);
/* Learns from a job that ends how long jobs are. */
void pipeline_note_length(struct pipeline *pipeline, const struct job_run *run);

/* stages.c */

/* Brings a job of the loop, or a new one, to a stage and begins the stage. */
void stages_move(struct job_run *run, enum stage stage);
/* Decides how the job ends, and ends it. */
void stages_end(struct job_run *run, enum outcome outcome);
/* A stage has ended, well or badly: on to the next one, or to the end. */
void stages_advance(struct job_run *run);
/* The lease of a job has ended while a worker or the engine has the job. */
void stages_make_zombie(struct job_run *run);
/* A job that nothing points to any more becomes a free place. */
void stages_recycle(struct job_run *run);
/* Has a worker carry out the stage that the job is at. */
void job_run_start_task(struct job_run *run);
/* On the worker's run and the loop's done of every task. */
void job_run_task_run(struct worker_task *task, struct worker_tools *tools);
void job_run_task_done(struct worker_task *task);
/* Whether the job shall end because outputs cannot be written; one for keys alone goes on. */
bool job_run_lacks_disk(const struct job_run *run);

/* lease_events.c: the queue's events */

void lease_events_leased(void *context, struct lease *lease);
void lease_events_lost(void *context, struct lease *lease);
void lease_events_start_decided(void *context, struct lease *lease, enum start_decision decision,
                                const char *kept);
/* The first stage, of those jobs that may not be started unasked. */
void job_run_enter_ask(struct job_run *run);
/* A cancelled job at the end of a stage: from now on that is its error, unless it has failed for
 * good or has all its outputs in their places. */
void job_run_end_cancelled(struct job_run *run);

/* reads.c: the stage READ on the loop */

void reads_enter(struct job_run *run);
/* Starts the reads that waited, as far as there is room. */
void reads_pump(struct pipeline *pipeline);
/* A worker found no room for the job's input. */
void reads_refuse(struct job_run *run);
/* Memory of zombies came back: reads that stepped aside are in the line again. */
void reads_recall(struct pipeline *pipeline);
/* On the job's owner, after a read: it found no room for the input and must be repeated. */
bool job_run_lacks_room(const struct job_run *run);
/* Gives the input's memory back; idempotent. */
void reads_release(struct job_run *run);
/* The bytes that a reply of Redis brought are in the pool now, or gone: others may have theirs. */
void reads_end_key(struct job_run *run);

/* admits.c: the stage ADMIT */

void admits_pump(struct pipeline *pipeline);
/* Memory of zombies came back: jobs that stepped aside are in the line again. */
void admits_recall(struct pipeline *pipeline);

/* steps.c, planning.c, outputs.c: the stages on a worker. Each sets run->error if it fails. */

void job_run_read(struct job_run *run, struct worker_tools *tools);
void job_run_decode(struct job_run *run, struct worker_tools *tools);
void job_run_compute(struct job_run *run, struct worker_tools *tools);
void job_run_encode(struct job_run *run, struct worker_tools *tools);
/* Starts the clock of timeout_s, unless it runs. */
void job_run_start_clock(struct job_run *run);
/* Builds the passes again that were dropped before admission. */
void job_run_restore_plan(struct job_run *run);

/* ack.c: the last stage, DONE or NACK */

void job_run_enter_ack(struct job_run *run);
void ack_settled(void *context, struct lease *lease, bool stale, bool dead);
/* Answers a job that a worker or the engine still has; it stays as a zombie. error NULL: the lease
 * is given back. */
void job_run_abandon(struct job_run *run, const struct error *error);
/* How log lines name it, while it has its lease. Returns `label`. */
const char *job_run_label(const struct job_run *run, char label[LABEL_BYTES]);

/* deadline.c */

/* Takes a job that waits on the loop or for a worker out of its wait; false: it is under way and
 * cannot be stopped. */
bool job_run_withdraw(struct job_run *run);
/* Whether the job is that far past its deadline, and the process was awake all that time. */
bool job_run_overdue(const struct job_run *run, uint64_t now_ns, double grace_s);
/* Its deadline has passed: timeout, naming the stage that it is at. */
void job_run_set_late(struct job_run *run);
void pipeline_on_tick(uv_timer_t *timer);
/* Outputs cannot be written: jobs with files that have not begun their encode go back. */
void pipeline_give_back_files(struct pipeline *pipeline);

/* trace_hooks.c: of a traced job the times go into its record, and the record into the trace */

void trace_hooks_begin(struct job_run *run);
void trace_hooks_run(struct job_run *run, uint32_t worker, uint64_t begin_ns, uint64_t end_ns);
void trace_hooks_admit(struct job_run *run, uint64_t admitted_ns);
/* On the worker that a job passed admission on; and on the loop, once it is back. */
void trace_hooks_carry(struct job_run *run);
void trace_hooks_back(struct job_run *run);
void trace_hooks_task(struct job_run *run);
void trace_hooks_end(struct job_run *run);

#endif
