/*
 * job_run.h - the state of one job from its fetch until Redis has acknowledged its end.
 *
 * Three enums describe the state: `stage` (the current step), `owner` (the thread that may use the
 * job) and `outcome` (how it ends). Only job_run_move and job_run_decide write them, on the loop,
 * and only the moves listed below are legal. Stage and owner determine the list that a job is on,
 * so the length of a list counts the jobs in that state.
 *
 * A worker carries a job through several stages and to a device. The device's thread submits it to
 * the workers again. The loop then sees the job only at its start and at its end.
 *
 * While a worker or the engine owns a job, the loop reads only four members besides the state.
 * `outcome` is set by the loop; a worker checks it before it renames a file. `at` is the stage that
 * the worker has reached. timing.deadline_ns is the deadline, to which timing.blind_ns adds. A
 * zombie is a job that was answered while a worker or the engine still owned it; its slot is free
 * after they return it.
 */
#pragma once

#include <stdatomic.h>

#include "codecs/codec.h"
#include "conf/list.h"
#include "conf/options.h"
#include "conf/status.h"
#include "daemon/files/files.h"
#include "daemon/pipeline/dispatch.h"
#include "daemon/pipeline/job_overlays.h"
#include "daemon/telemetry/job_stages.h"
#include "daemon/telemetry/trace.h"
#include "daemon/web/fetcher.h"
#include "daemon/workers/workers.h"
#include "gpu/engine/engine.h"
#include "gpu/plan/plan.h"
#include "queue/job/job.h"
#include "queue/lease/queue.h"

#define CLOCK_STANDS UINT64_MAX /* a deadline_ns: the clock of timeout_s is stopped */

enum owner {
    OWNER_NONE,   /* a free slot, on the pipeline's list `free` or `free_images` */
    OWNER_LOOP,   /* on the list of its stage; it may wait for a reply of Redis or for memory */
    OWNER_WORKER, /* worker_task or engine_task is submitted; the job stays on the list of its
                     stage */
    OWNER_ZOMBIE, /* the same, after the lease ended; on the list `zombies` */
    OWNER_COUNT
};

/* For all outcomes except RETURNED and LOST, run->error is the job's status. */
enum outcome {
    OUTCOME_OPEN,      /* not decided: the job goes on */
    OUTCOME_CANCELLED, /* cancelled: the job ends after its current stage */
    OUTCOME_REFUSED,   /* answered: the job itself has an error and never started */
    OUTCOME_REPEATED,  /* answered with the result of the first job of the same unique id */
    OUTCOME_ANSWERED,  /* answered with success or an error, or kept for another attempt */
    OUTCOME_LOST,      /* the lease expired, or the job became a zombie */
    OUTCOME_RETURNED,  /* the job goes back to the queue, and this attempt does not count */
    OUTCOME_COUNT
};

/* What follows a part of a stage. The stage returns it, or the event for which the job waits gives
 * it to pipeline_resume (state.h). Only spine.c chooses the stage from it. */
enum stage_result {
    RESULT_NEXT,  /* the next stage follows; ACK if the job has an outcome, or an error that is
                     not of ENCODE */
    RESULT_RUN,   /* a worker or a device runs the stage */
    RESULT_WAIT,  /* the job waits for an event, or for memory (line.h) */
    RESULT_AGAIN, /* the job is read again */
    RESULT_END,   /* the job is answered now */
    RESULT_RETURN /* the job goes back to the queue, and this attempt does not count */
};

/*
 * Every legal move. Each row: stage and owner before the move; owner after it, and the set of
 * stages after it.
 */
#define JOB_RUN_AT(stage) (1u << STAGE_##stage)
/* The moves of a stage that a worker runs. `next` and `back` are sets. A job can end at any stage:
 * it goes to ACK. */
#define JOB_RUN_WORKED(MOVE, stage, next, back)                                                    \
    MOVE(stage, LOOP, WORKER, JOB_RUN_AT(stage))                                                   \
    MOVE(stage, LOOP, LOOP, (next) | JOB_RUN_AT(ACK))                                              \
    MOVE(stage, WORKER, LOOP, back)                                                                \
    MOVE(stage, WORKER, ZOMBIE, JOB_RUN_AT(stage))                                                 \
    MOVE(stage, ZOMBIE, NONE, JOB_RUN_AT(ASK))
#define JOB_RUN_MOVES(MOVE)                                                                        \
    /* A new lease takes a free slot, or an image of a set, which asks nothing. */                 \
    MOVE(ASK, NONE, LOOP, JOB_RUN_AT(ASK) | JOB_RUN_AT(READ))                                      \
    MOVE(ASK, LOOP, LOOP, JOB_RUN_AT(READ) | JOB_RUN_AT(ACK))                                      \
    /* A worker can carry a job through several stages; it returns at the last one. */             \
    JOB_RUN_WORKED(MOVE, READ, JOB_RUN_AT(ADMIT) | JOB_RUN_AT(SET),                                \
                   JOB_RUN_AT(READ) | JOB_RUN_AT(DECODE) | JOB_RUN_AT(GPU) | JOB_RUN_AT(ENCODE) |  \
                       JOB_RUN_AT(SET))                                                            \
    MOVE(ADMIT, LOOP, LOOP, JOB_RUN_AT(DECODE) | JOB_RUN_AT(ACK))                                  \
    /* If the borders of the input were measured, the job is planned without them. */              \
    JOB_RUN_WORKED(MOVE, DECODE, JOB_RUN_AT(GPU) | JOB_RUN_AT(READ),                               \
                   JOB_RUN_AT(DECODE) | JOB_RUN_AT(GPU) | JOB_RUN_AT(ENCODE) | JOB_RUN_AT(SET))    \
    /* If a device has declined the file, the job is planned again for the host's codecs. */       \
    JOB_RUN_WORKED(MOVE, GPU, JOB_RUN_AT(ENCODE) | JOB_RUN_AT(READ),                               \
                   JOB_RUN_AT(GPU) | JOB_RUN_AT(ENCODE) | JOB_RUN_AT(SET))                         \
    JOB_RUN_WORKED(MOVE, ENCODE, JOB_RUN_AT(UPLOAD), JOB_RUN_AT(ENCODE) | JOB_RUN_AT(SET))         \
    MOVE(UPLOAD, LOOP, LOOP, JOB_RUN_AT(SET) | JOB_RUN_AT(ACK))                                    \
    JOB_RUN_WORKED(MOVE, SET, 0, JOB_RUN_AT(SET))                                                  \
    /* An image of a set ends: nobody acknowledges that. */                                        \
    MOVE(SET, LOOP, NONE, JOB_RUN_AT(ASK))                                                         \
    /* Redis has acknowledged the end. The stage of a free slot is ASK. */                         \
    MOVE(ACK, LOOP, NONE, JOB_RUN_AT(ASK))

/* Every legal decision: the outcome before it, and the set of outcomes after it. */
#define JOB_RUN_TO(outcome) (1u << OUTCOME_##outcome)
#define JOB_RUN_DECISIONS(DECISION)                                                                \
    DECISION(OPEN, JOB_RUN_TO(CANCELLED) | JOB_RUN_TO(REFUSED) | JOB_RUN_TO(REPEATED) |            \
                       JOB_RUN_TO(ANSWERED) | JOB_RUN_TO(LOST) | JOB_RUN_TO(RETURNED))             \
    DECISION(CANCELLED, JOB_RUN_TO(ANSWERED) | JOB_RUN_TO(LOST) | JOB_RUN_TO(RETURNED))            \
    /* There is no memory for the answer, or the lease expires before Redis has the answer. */     \
    DECISION(REFUSED, JOB_RUN_TO(LOST) | JOB_RUN_TO(RETURNED))                                     \
    DECISION(REPEATED, JOB_RUN_TO(LOST) | JOB_RUN_TO(RETURNED))                                    \
    DECISION(ANSWERED, JOB_RUN_TO(LOST) | JOB_RUN_TO(RETURNED))                                    \
    DECISION(LOST, JOB_RUN_TO(RETURNED))                                                           \
    DECISION(RETURNED, 0)

/* Where a codec of the job runs. */
enum codec_place { CODEC_ON_HOST, CODEC_ON_DEVICE };

/* One of the job's outputs. */
struct job_run_output {
    const struct format *format; /* NULL: no image is written, or the format depends on the input,
                                    which is not read yet */
    struct op_item *ops;         /* gpu/plan/op_list.h */
    enum codec_place encoder;
    unsigned metadata;         /* of the input, to write: METADATA_ICC... */
    bool in_srgb;              /* its pixels are converted from the input's profile */
    size_t variant;            /* index in the plan; valid only while error is unset */
    bool was_planned;          /* it had no error when the job was planned first, and then: */
    bool is_gray, is_deep;     /* it needs gray, or samples of 16 bits */
    uint32_t width, height;
    uint64_t bytes;
    int quality; /* that max_bytes or a similarity needed; 0: the job's */
    int ssim;    /* of the file to its image, in units of 1 / SSIM_ONE, if the job
                    names a similarity */
    bool placed; /* the file has its final name, or the server or Redis has the output */
    struct files_identity identity; /* of that file */
    struct job_run *run;       /* set for an upload */
    struct error error;        /* of this output only; the other outputs go on */
    struct queue_value value;  /* the encoded bytes of an output to a Redis key or a URL */
    void *upload;              /* handle of fetcher_start or queue_store; NULL: not started, or
                                  ended */
    bool upload_begun;         /* the upload has had its turn */
    bool is_borrowed; /* value.value is in the reserved memory, until the image is packed */
    cJSON *values;             /* results of its operations; NULL: none */
};

/* Limits as of the fetch: a configuration reload must not change a running job. */
struct job_run_bounds {
    struct codec_limits codec;
    struct codec_caller caller; /* of codec and of encode requests: gone when the job is not open */
    struct plan_limits plan;
    uint64_t input_bytes_max;
    double decode_timeout_s;
    enum dispatch_rule codecs[DEVICE_CODECS]; /* the options of the devices' codecs */
    bool sync;      /* fsync outputs before the rename */
    bool same_root; /* input_root is output_root */
    const struct prefixes *prefixes; /* of URLs; loop only: a reload replaces them */
    const char *ns; /* of the job's queue */
};

/* How a job waits for memory: line.h. */
enum turn { TURN_IN_ORDER, TURN_REFUSED, TURN_ASIDE };

struct job_run_wait {
    enum turn turn;
    enum lack lack; /* of the last read; the worker sets it */
    uint64_t given; /* pipeline->files_given at the start of the last read */
};

/* What a job does in the stage READ; reads.h chooses the next step. */
enum read_step {
    READ_WAITS,   /* in the line */
    READ_OVERLAY, /* the key of an overlay is read, and a worker makes the overlay */
    READ_INPUT,   /* the input is read from a key, or downloaded */
    READ_PLAN     /* a worker puts the input into the file pool, and plans the job */
};

struct job_run_input {
    enum read_step step;
    enum codec_place decoder;
    bool declined;         /* a device could not decode the file, or encode a result: both are done
                              on the host */
    void *reading;         /* handle of queue_read or fetcher_start until the bytes are here */
    uint8_t *loaded;       /* the bytes of a key or a URL, malloc'd; the read stage frees them */
    bool key_counted;      /* the queue or the fetcher still counts `loaded` in its budget, until
                              the loop owns the job again */
    bool is_open;          /* fd is the input's file: until READ has all of it or, if a device
                              decodes it, until ENCODE, because a declined file is read again */
    bool is_lent;           /* fd belongs to the set: a member that is read from its archive */
    int fd;
    uint64_t offset;        /* of the input's first byte in the file of fd: of a member, or 0 */
    struct pool_block file; /* the input file's bytes; may be empty while the file is open */
    const uint8_t *seen;    /* on a worker: the file's beginning, borrowed: only the head, in the
                               worker's sink (READ); else all of it, in `file` or, if a device
                               decodes, in the pinned input buffer (from DECODE on) */
    uint64_t seen_bytes;   /* `bytes`, or less if only the head was read for the plan */
    uint64_t bytes;        /* of the file */
    struct files_identity identity; /* of an input with a path */
};

/* The job's state in admission.h; guarded by the lock of struct admission. */
enum reservation {
    RESERVATION_NONE,
    RESERVATION_WAITS,    /* in the line */
    RESERVATION_ASIDE,    /* has left it: zombies or codecs of animations hold the memory */
    RESERVATION_HELD,     /* holds memory that it will release by itself */
    RESERVATION_PARKED,   /* an image holds memory until it is in its tar or array */
    RESERVATION_ABANDONED /* a zombie that holds memory */
};

/* Memory that admission.h has reserved for the job, in bytes. */
struct job_run_reserved {
    enum reservation state;
    size_t lane_bytes;    /* heap */
    size_t results_room;  /* part of lane_bytes for results */
    size_t results_bytes; /* part of results_room in use; the worker's until the encode ends */
    size_t asked_bytes;   /* admission_need at the time of admission */
    bool by_device;       /* on a device: no worker holds the memory for long */
    bool needs_long;      /* animations' codecs hold the memory: until it is admitted, no other
                             animation begins */
    bool opaque_only;     /* the lane has no room for encoders of alpha, unless it is opaque */
    struct engine_memory memory;
    uint32_t device; /* of the memory; stays after its release */
};

/* The clock of timeout_s runs during a download and the read, and from the start of the decode to
 * the end, or until the job is read again. The owner of the job starts and stops it; the loop reads
 * it. */
struct job_run_timing {
    uint64_t fetched_ns;
    uint64_t entered_ns;     /* when the job entered its stage */
    _Atomic uint64_t deadline_ns; /* CLOCK_STANDS while the clock is stopped */
    uint64_t left_ns;        /* rest of timeout_s while the clock is stopped */
    _Atomic uint64_t blind_ns; /* the longest time for which the codec that runs now does not look
                                  at the deadline; 0: a short time */
    uint64_t waits_until_ns; /* if the clock is stopped at this time, the job goes back */
    uint64_t transfer_ns;    /* when the download or the uploads began */
    double download_ms, upload_ms; /* 0: none */
    double queue_ms;         /* -1: unknown */
    double ms[STAGE_COUNT];  /* working time; for ADMIT, waiting time; -1: not reached */
};

struct image_set;
struct set_item;

struct job_run {
    struct list_node node; /* in the list of its state */
    struct lease *lease;         /* NULL for a zombie and for an image of a set */
    struct queue *queue;         /* this and the next: copied from the lease, because a zombie's
                                    worker outlives it */
    uint64_t number, fetch;
    uint32_t shard, shards, attempt;
    bool alone;
    bool is_image;         /* of a set: set_image.h */
    bool is_frame;         /* an image whose animation's codec has memory until the last frame */
    bool is_parked;        /* an image with borrowed outputs: it keeps its reserved memory */
    bool is_prepared;      /* an image that has taken the job: set_image_prepare */
    bool has_joined;       /* an image for which set_image_joins has released what it can */
    bool has_given;        /* which then was the memory of its input, too */
    bool is_lasting;       /* an image whose error a retry would have, too: files_is_lasting */
    struct image_set *set; /* of a job with many images, from READ on, and of each image */
    struct set_item *item; /* of an image, until it has ended or is a zombie */
    uint64_t image;        /* the index of the image */
    char *image_name;      /* of an image that is a file or a member: job.input.path; malloc'd */
    enum stage stage;
    enum owner owner;
    _Atomic enum outcome outcome;
    _Atomic enum stage at;       /* stage that the worker has reached: `stage` or a later one */
    enum stage_result stage_result; /* of that stage, when the worker returns the job */

    size_t text_bytes;           /* this job's part of pipeline->text_bytes */
    char *repeat;                /* the result for OUTCOME_REPEATED; malloc'd */
    char *result;                /* of a job that a worker has done; malloc'd. NULL: not written */

    bool lacks_room;             /* the disk has no room for an output, but it takes small files */
    uint64_t needed;             /* least size of the first output that did not fit, in bytes */
    uint64_t room;               /* bytes that the disk had for that output */
    struct job_run_bounds bounds;
    struct job_run_timing timing;
    struct job_run_wait wait;
    struct job_run_input input;
    struct job_run_overlays overlays;
    struct image_info info;
    struct decode_request decode;
    struct trim_part trimmed;    /* the part of the input without borders; width 0: not measured */
    uint32_t measured_width, measured_height; /* of the image in which it was measured */
    bool measures;               /* the plan is only for measuring them: it has no outputs */
    size_t plan_bytes;           /* of its passes; above PLAN_KEPT_BYTES they are dropped before
                                    admission and built again after it */
    size_t values_bytes;         /* the most memory that its values can need */
    /* This member and the next four are all that the thread of a device uses of a job that it has
     * run. They are adjacent: ENGINE_BESIDE_BYTES. */
    struct job_run_reserved reserved;
    struct dispatch_charge charge;
    struct worker_task worker_task;
    struct pipeline *pipeline;

    /* Large members, which are set when they are needed: zeroing all of them would take longer than
     * the rest of the loop's work on a small job. */
    struct engine_task engine_task; /* engine_task.plan is NULL before the GPU stage */
    struct job job;              /* in a free slot: cleared */
    struct error error;          /* of the job; the first error is kept */
    struct error disk_error;     /* set if the disk has failed after a failed write */
    struct plan plan;            /* without variants before the READ stage has built it */
    struct trace_job trace;
    struct job_run_output outputs[JOB_OUTPUTS_MAX]; /* up to job.output_count: zero, after the job
                                                       was parsed */
};

/* For rank_push into a list of jobs. */
#define JOB_RUN_RANK RANK_OFFSET(struct job_run, node, worker_task.rank)

#define job_run_at(pointer) container_of(pointer, struct job_run, node)
/* The jobs of a list, from the first to the last; the body may move the current job. */
#define each_run(run, list)                                                                        \
    for (struct job_run *run = job_run_at((list)->head.next), *next_ = job_run_at(run->node.next); \
         &run->node != &(list)->head; run = next_, next_ = job_run_at(run->node.next))
/* The same, from the last to the first. */
#define each_run_back(run, list)                                                                   \
    for (struct job_run *run = job_run_at((list)->head.prev), *next_ = job_run_at(run->node.prev); \
         &run->node != &(list)->head; run = next_, next_ = job_run_at(run->node.prev))

/* Whether the tables above list the move or the decision. */
bool job_run_may_move(enum stage stage, enum owner owner, enum stage to_stage, enum owner to_owner);
bool job_run_may_decide(enum outcome from, enum outcome to);
/* Loop only. Asserts that the move is legal, and moves the job to the list of its new state, after
 * the jobs that it does not overtake there (conf/rank.h). If that is the same list, the job keeps
 * its position. */
void job_run_move(struct job_run *run, enum stage stage, enum owner owner);
/* Loop only. Asserts that the decision is legal. */
void job_run_decide(struct job_run *run, enum outcome outcome);
/* Whether no outcome is decided yet. Any thread. */
bool job_run_is_open(const struct job_run *run);
/* Resets a free slot for the next job. Loop only. */
void job_run_reset(struct job_run *run, struct pipeline *pipeline);

/* Copies the limits from the options. */
void job_run_take_bounds(struct job_run *run, const struct options *options);
/* Starts the clock of timeout_s. Idempotent. */
void job_run_start_clock(struct job_run *run);
/* Stops it, and keeps the time that is left. Idempotent. */
void job_run_stop_clock(struct job_run *run);
/* Adds to the time of a stage: a job may go through it several times. */
void job_run_add_time(struct job_run *run, enum stage stage, double ms);
/* Sets the error STATUS_TIMEOUT, with the stage that the job has reached. */
void job_run_set_late(const struct job_run *run, struct error *error);
/* Gives a decoder the job's deadline, or decode_timeout_s from now if that is earlier. */
void job_run_bound_codec(struct job_run *run);
/* The job gets a decoder's error, or its own timeout if the decoder has reached that. */
void job_run_take_codec_error(struct job_run *run, const struct error *error);

/* Whether the job is in GPU on a device: from before the submission until the worker that takes it
 * back moves it to ENCODE. */
bool job_run_is_on_device(const struct job_run *run);
/* Whether the disk has failed and the job writes files. */
bool job_run_lacks_disk(const struct job_run *run);
/* Writes the job's name for log lines. The job must have its lease. Returns `label`. */
const char *job_run_label(const struct job_run *run, char label[LABEL_BYTES]);
