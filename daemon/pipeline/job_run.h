/*
 * job_run.h - one leased job on its way through the stages.
 *
 * Three enums say where a job stands: `stage` (where), `owner` (who may touch it) and `outcome`
 * (how it ends). Only job_run_move and job_run_decide write them, on the loop, and only along the
 * moves listed below. The list that a job is on follows from stage and owner, so the length of a
 * list counts the jobs in that state.
 *
 * While a worker or the engine owns a job, the loop reads its state and the members that cross
 * threads: `outcome`, which the loop sets and a worker checks before it renames a file; `at`, the
 * stage that the worker has reached; and timing.deadline_ns. A zombie is a job that was answered
 * while a worker or the engine still had it; it keeps its place until they return it.
 */
#ifndef GPUIMGD_DAEMON_PIPELINE_JOB_RUN_H
#define GPUIMGD_DAEMON_PIPELINE_JOB_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/codec.h"
#include "conf/list.h"
#include "conf/options.h"
#include "conf/status.h"
#include "daemon/files/files.h"
#include "daemon/pipeline/workers.h"
#include "daemon/telemetry/stage.h"
#include "daemon/telemetry/trace.h"
#include "gpu/engine/engine.h"
#include "gpu/plan/plan.h"
#include "queue/job/job.h"
#include "queue/job/label.h"
#include "queue/lease/queue.h"

#define CLOCK_STANDS UINT64_MAX

enum owner {
    OWNER_NONE,   /* nobody: a free place, all zero, on the pipeline's list `free` */
    OWNER_LOOP,   /* on the list of its stage; it may wait for a reply of Redis or for memory */
    OWNER_WORKER, /* worker_task is submitted; the job stays on the list of its stage */
    OWNER_ENGINE, /* engine_task is submitted; likewise */
    OWNER_ZOMBIE, /* its worker or the engine, after the lease ended; on the list `zombies` */
    OWNER_COUNT
};

/* Unless it is RETURNED or LOST, run->error says how the job went. */
enum outcome {
    OUTCOME_OPEN,      /* under way */
    OUTCOME_CANCELLED, /* a cancel came: the job ends with its current stage */
    OUTCOME_REFUSED,   /* answered: an error in the job itself, which never began */
    OUTCOME_REPEATED,  /* answered with the result of the first job of the same unique id */
    OUTCOME_ANSWERED,  /* answered, well or badly; or kept for another attempt */
    OUTCOME_LOST,      /* the lease ended without this run: it expired, or this is a zombie */
    OUTCOME_RETURNED,  /* the lease goes back with its attempt, as if never fetched */
    OUTCOME_COUNT
};

/*
 * Every legal move: from a stage and an owner, to an owner, at one of these stages.
 *
 *      from stage, owner; to owner, stages
 */
#define JOB_RUN_AT(stage) (1u << STAGE_##stage)
#define JOB_RUN_MOVES(MOVE)                                                                        \
    /* A lease comes to a free place; an error in the job goes straight to its answer. */          \
    MOVE(ASK, NONE, LOOP, JOB_RUN_AT(ASK) | JOB_RUN_AT(READ) | JOB_RUN_AT(ACK))                    \
    MOVE(ASK, LOOP, LOOP, JOB_RUN_AT(READ) | JOB_RUN_AT(ACK))                                      \
    /* From each stage a job that ends goes to ACK. */                                             \
    MOVE(READ, LOOP, WORKER, JOB_RUN_AT(READ))                                                     \
    MOVE(READ, LOOP, LOOP, JOB_RUN_AT(ADMIT) | JOB_RUN_AT(ACK))                                    \
    /* Back at READ, or at the stage to which the worker has carried a small job. */               \
    MOVE(READ, WORKER, LOOP,                                                                       \
         JOB_RUN_AT(READ) | JOB_RUN_AT(DECODE) | JOB_RUN_AT(GPU) | JOB_RUN_AT(ENCODE))             \
    MOVE(READ, WORKER, ZOMBIE, JOB_RUN_AT(READ))                                                   \
    MOVE(READ, ZOMBIE, NONE, JOB_RUN_AT(ASK))                                                      \
    MOVE(ADMIT, LOOP, LOOP, JOB_RUN_AT(DECODE) | JOB_RUN_AT(ACK))                                  \
    MOVE(DECODE, LOOP, WORKER, JOB_RUN_AT(DECODE))                                                 \
    MOVE(DECODE, LOOP, LOOP, JOB_RUN_AT(GPU) | JOB_RUN_AT(ACK))                                    \
    MOVE(DECODE, WORKER, LOOP, JOB_RUN_AT(DECODE))                                                 \
    MOVE(DECODE, WORKER, ZOMBIE, JOB_RUN_AT(DECODE))                                               \
    MOVE(DECODE, ZOMBIE, NONE, JOB_RUN_AT(ASK))                                                    \
    /* A worker computes with the CPU engine; CUDA's engine computes by itself. */                 \
    MOVE(GPU, LOOP, WORKER, JOB_RUN_AT(GPU))                                                       \
    MOVE(GPU, LOOP, ENGINE, JOB_RUN_AT(GPU))                                                       \
    MOVE(GPU, LOOP, LOOP, JOB_RUN_AT(ENCODE) | JOB_RUN_AT(ACK))                                    \
    MOVE(GPU, WORKER, LOOP, JOB_RUN_AT(GPU))                                                       \
    MOVE(GPU, WORKER, ZOMBIE, JOB_RUN_AT(GPU))                                                     \
    MOVE(GPU, ENGINE, LOOP, JOB_RUN_AT(GPU))                                                       \
    MOVE(GPU, ENGINE, ZOMBIE, JOB_RUN_AT(GPU))                                                     \
    MOVE(GPU, ZOMBIE, NONE, JOB_RUN_AT(ASK))                                                       \
    MOVE(ENCODE, LOOP, WORKER, JOB_RUN_AT(ENCODE))                                                 \
    MOVE(ENCODE, LOOP, LOOP, JOB_RUN_AT(ACK))                                                      \
    MOVE(ENCODE, WORKER, LOOP, JOB_RUN_AT(ENCODE))                                                 \
    MOVE(ENCODE, WORKER, ZOMBIE, JOB_RUN_AT(ENCODE))                                               \
    MOVE(ENCODE, ZOMBIE, NONE, JOB_RUN_AT(ASK))                                                    \
    /* Redis has acknowledged the end. A free place stands at ASK. */                              \
    MOVE(ACK, LOOP, NONE, JOB_RUN_AT(ASK))

/*
 * Every legal decision: from an outcome to one of these.
 */
#define JOB_RUN_TO(outcome) (1u << OUTCOME_##outcome)
#define JOB_RUN_DECISIONS(DECISION)                                                                \
    DECISION(OPEN, JOB_RUN_TO(CANCELLED) | JOB_RUN_TO(REFUSED) | JOB_RUN_TO(REPEATED) |            \
                       JOB_RUN_TO(ANSWERED) | JOB_RUN_TO(LOST) | JOB_RUN_TO(RETURNED))             \
    DECISION(CANCELLED, JOB_RUN_TO(ANSWERED) | JOB_RUN_TO(LOST) | JOB_RUN_TO(RETURNED))            \
    /* No memory to keep the answer, or the lease expires before Redis has it. */                  \
    DECISION(REFUSED, JOB_RUN_TO(LOST) | JOB_RUN_TO(RETURNED))                                     \
    DECISION(REPEATED, JOB_RUN_TO(LOST) | JOB_RUN_TO(RETURNED))                                    \
    DECISION(ANSWERED, JOB_RUN_TO(LOST) | JOB_RUN_TO(RETURNED))                                    \
    DECISION(LOST, JOB_RUN_TO(RETURNED))                                                           \
    DECISION(RETURNED, 0)

/* One of the job's outputs. */
struct job_run_output {
    const struct format *format; /* NULL until the input's format is known, if that decides; and for
                                    values alone */
    size_t variant;            /* in the plan; valid only while error is unset */
    uint32_t width, height;
    uint64_t bytes;
    bool placed;               /* a file that is where it was asked for */
    struct files_identity identity; /* of that file */
    struct error error;        /* why this output alone failed */
    struct queue_value value;  /* the encoded bytes of an output that goes to Redis */
    cJSON *values;             /* what its operations found out; NULL: nothing */
};

/* Bounds at the time of the fetch: a reload must not change a job under way. */
struct job_run_bounds {
    struct codec_limits codec;
    struct plan_limits plan;
    uint64_t input_bytes_max;
    double decode_timeout_s;
    bool sync;      /* fsync outputs before the rename */
    bool same_root; /* input_root is output_root */
};

/* The turn of a job that waits for room on the loop, in READ and ADMIT. */
enum turn {
    TURN_IN_ORDER,
    TURN_REFUSED, /* READ: a worker found no room for the input; younger jobs wait for it */
    TURN_ASIDE    /* only zombies could make room for it: it holds nobody up */
};

struct job_run_input {
    enum turn turn;        /* the loop's */
    void *reading;         /* queue_read's handle, while the reply of Redis is awaited */
    uint8_t *loaded;       /* a file that came from Redis, malloc'd; taken over by the read */
    bool key_counted;      /* the queue counts `loaded` still */
    uint64_t files_given;  /* the pipeline's, when the read began */
    struct pool_block file; /* the input file's bytes; none after a read: there was no room */
    uint64_t bytes;        /* of the file */
    struct files_identity identity; /* of a file that has a path */
};

/* Where a job stands with admission.h; guarded by its lock. */
enum reservation {
    RESERVATION_NONE,
    RESERVATION_WAITS,    /* in the line */
    RESERVATION_HELD,     /* holds memory, and is waited for */
    RESERVATION_ABANDONED /* a zombie that holds memory */
};

/* What is reserved for the job; admission's. */
struct job_run_reserved {
    enum reservation state;
    size_t lane_bytes;    /* heap */
    size_t results_room;  /* of that, for results */
    size_t results_bytes; /* of that, used by results; its worker's until the encode has ended */
    size_t asked_bytes;   /* all that the job asked for */
    struct engine_memory memory;
};

/* The clock of timeout_s runs while a worker reads the input, and from the start of the decode to
 * the end. The owner of the job starts and stops it; the loop reads it. */
struct job_run_timing {
    uint64_t fetched_ns;
    uint64_t entered_ns;     /* the stage whose list it is on */
    _Atomic uint64_t deadline_ns; /* CLOCK_STANDS: the clock does not run */
    uint64_t left_ns;        /* of timeout_s, while the clock does not run */
    uint64_t waits_until_ns; /* if the clock does not run by then, the job goes back */
    double queue_ms;         /* -1: not known */
    double ms[STAGE_COUNT];  /* time at work, not waiting; admit: waiting; -1: not reached */
};

struct job_run {
    struct list_node node; /* in the list of its state */
    struct pipeline *pipeline;
    struct lease *lease;         /* NULL for a zombie */
    uint64_t number, fetch;      /* the lease's, for a worker that outlives it */
    enum stage stage;
    enum owner owner;
    _Atomic enum outcome outcome;
    _Atomic enum stage at;       /* how far a worker has carried it: `stage`, or beyond */

    struct job job;
    size_t text_bytes;           /* counted in the pipeline's */
    char *repeat;                /* the result for OUTCOME_REPEATED; malloc'd */
    struct error error;          /* of the job; the first one counts */
    struct error disk_error;     /* the disk is why an output could not be written */

    struct job_run_bounds bounds;
    struct job_run_timing timing;
    struct job_run_input input;
    struct image_info info;
    struct decode_request decode;
    struct plan plan;
    size_t plan_bytes;           /* of its passes; above PLAN_KEPT_BYTES they are dropped before
                                    admission and built again after it */
    size_t values_bytes;         /* that its values take at most */
    struct job_run_reserved reserved;
    struct worker_task worker_task;
    struct engine_task engine_task; /* its plan is set once the GPU stage has begun */
    struct job_run_output outputs[JOB_OUTPUTS_MAX];
    struct trace_job trace;
};

/* Whether the tables above list it. */
bool job_run_may_move(enum stage stage, enum owner owner, enum stage to_stage, enum owner to_owner);
bool job_run_may_decide(enum outcome from, enum outcome to);
/* Moves the job, which must be legal, to the end of the list of its new state. A move that changes
 * the owner alone keeps its place in the list of the stage. */
void job_run_move(struct job_run *run, enum stage stage, enum owner owner);
void job_run_decide(struct job_run *run, enum outcome outcome);
/* On any thread: whether the job goes on, neither cancelled nor lost. */
bool job_run_is_open(const struct job_run *run);
/* Zeroes a free place for the next job. */
void job_run_reset(struct job_run *run, struct pipeline *pipeline);

/* Takes what the options say at this moment. */
void job_run_take_bounds(struct job_run *run, const struct options *options);
/* An error in an output fails that one; the job goes on for the others, if there are any. */
void job_run_check_operations(struct job_run *run);
/* Whether all that the output asks for is of the format that it is written in. bad_job. */
enum status job_run_check_keys(const struct job_run *run, size_t index, const struct format *format,
                               struct error *error) MUST_CHECK;
/* Formats, decode path and plan, from the job and the input's header. */
void job_run_build_plan(struct job_run *run);
/* Frees what encoding is the last to need: the plan and the colour profile. Idempotent. */
void job_run_drop_plan(struct job_run *run);
/* Gives back all memory but the job itself and its results; idempotent. */
void job_run_release(struct job_run *run);
/* Frees values and encoded outputs; idempotent. */
void job_run_drop_results(struct job_run *run);
/* Frees all that the job has. */
void job_run_clear(struct job_run *run);

#endif
