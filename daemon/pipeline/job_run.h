/*
 * job_run.h - one leased job on its way through the stages.
 *
 * A job belongs to the loop, except while its worker_task is with a worker or its engine_task
 * with the engine; then only the fields of that stage may be touched, by the owner of the task.
 * Four words cross threads: `lost` and `cancelled`, which the loop sets, and a worker looks before
 * it renames; `at`, by which the loop knows what the worker is at, and `deadline_ns`, until when.
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

/* One of the job's outputs. */
struct job_run_output {
    const struct format *format; /* NULL until the input's format is known, where it decides; and
                                  where values alone are wanted */
    size_t variant;            /* in the plan; only where error is unset */
    uint32_t width, height;
    uint64_t bytes;
    bool placed;               /* a file that is where it was asked for */
    struct files_identity identity; /* that file */
    struct error error;        /* why this output alone failed */
    struct queue_value value;  /* the encoded bytes of an output that goes to Redis */
    cJSON *values;             /* what its operations found out; NULL: nothing */
};

struct job_run {
    struct list_node node; /* in the list of its stage */
    struct pipeline *pipeline;
    struct lease *lease;     /* NULL once abandoned */
    uint64_t number, fetch;  /* the lease's, for a worker that outlives it */
    struct job job;
    size_t text_bytes;      /* counted in the pipeline's */
    enum stage stage;       /* the list that it is on: the loop's */
    _Atomic enum stage at;  /* how far a worker has carried it: `stage`, or beyond */
    bool carried;           /* small enough for one worker to carry it from file to file */
    bool in_line;           /* counted among those that wait for admission; its own */
    struct error error;     /* of the job; the first one counts */
    _Atomic bool lost;      /* no longer ours, or answered already: rename nothing */
    _Atomic bool cancelled; /* likewise; the loop sets it, and answers at the end of the stage */
    bool abandoned;         /* answered; kept only until its worker or stream comes back */
    bool out;               /* with a worker or with the engine */
    bool again;             /* set by the read that found no room */
    bool refused;           /* a read found no room: it comes before younger ones */
    bool aside;             /* only abandoned jobs could make room for it: it holds nobody up */
    bool key_read;          /* the queue counts `loaded` still */
    bool give_back;         /* ends as if it had never been fetched */
    bool computed;          /* the engine had something to do */
    bool unfit;             /* bad in itself: it could never begin */

    uint64_t fetched_ns;
    uint64_t entered_ns;    /* the stage whose list it is on */
    /* The clock of timeout_s runs while a worker reads the input, and from the beginning of the
     * decode to the end. Who has the job starts and stops it; the loop looks. */
    _Atomic uint64_t deadline_ns; /* CLOCK_STANDS: it does not run */
    uint64_t left_ns;       /* of timeout_s, while it does not run */
    uint64_t waits_until_ns; /* if it does not run by then, the job goes back */
    uint64_t files_given;   /* the pipeline's, when its read began */
    double queue_ms;        /* -1: not known */
    double ms[STAGE_COUNT]; /* time at work, not waiting; admit: waiting; -1: not reached */
    uint64_t admit_ns;      /* when the wait for admission began */
    bool traced;            /* `trace` is wanted */
    bool same_root;         /* input_root is output_root */

    /* Bounds at the time of the fetch: a reload must not change a job under way. */
    struct codec_limits limits;
    struct plan_limits plan_limits;
    uint64_t input_bytes_max;
    double decode_timeout_s;
    bool sync;

    char *repeat;              /* the result that the first job with its id gave it; malloc'd */
    void *reading;             /* queue_read's handle */
    uint8_t *loaded;           /* a file that came from Redis, malloc'd; taken over by the read */
    struct pool_block file;    /* the input file's bytes */
    uint64_t file_bytes;
    struct files_identity input_identity; /* of a file that has a path */
    struct image_info info;
    struct decode_request decode;
    struct plan plan;
    struct engine_memory memory;
    bool plan_dropped;         /* its passes are to be built again after admission */
    size_t plan_bytes;         /* of its passes, whether they are there or not */
    size_t values_bytes;       /* that its values take at most */
    size_t lane_bytes;         /* heap that is reserved; admission's */
    size_t results_room;       /* of that, for results; admission's */
    size_t results_bytes;      /* of that, what the results took; its worker's, then admission's */
    size_t admitted_bytes;     /* all that it asked for; admission's */
    bool admitted, counted;    /* holds memory, and counts among those that do; admission's */
    struct engine_task engine_task;
    bool reached_engine;

    bool suspects_disk;        /* an output could not be written, maybe because of the disk */
    struct error disk_error;   /* the disk is why an output could not be written */

    struct job_run_output outputs[JOB_OUTPUTS_MAX];
    struct worker_task worker_task;
    struct trace_job trace;
};

/* What the options say at this moment (lease_events.c). */
void job_run_take_bounds(struct job_run *run, const struct options *options);
/* What is wrong with an output fails that one; the job goes on for the others, if there are any. */
void job_run_check_operations(struct job_run *run);
/* Whether all that the output asks for is of the format that it is written in. bad_job. */
enum status job_run_check_keys(const struct job_run *run, size_t index, const struct format *format,
                               struct error *error) MUST_CHECK;
/* Formats, decode path and plan, of the job and what the header says (steps.c). */
void job_run_build_plan(struct job_run *run);
/* Frees what encoding is the last to need: the plan and the colour profile. Idempotent. */
void job_run_drop_plan(struct job_run *run);

/* What happens on a worker in each stage (steps.c). Each sets run->error where it fails. */
void job_run_read(struct job_run *run, struct worker_tools *tools);
void job_run_decode(struct job_run *run, struct worker_tools *tools);
void job_run_compute(struct job_run *run, struct worker_tools *tools);
void job_run_encode(struct job_run *run, struct worker_tools *tools);
/* How log lines name it, while it has its lease. Returns `label`. */
const char *job_run_label(const struct job_run *run, char label[LABEL_BYTES]);
/* Starts the clock of timeout_s, unless it runs. */
void job_run_start_clock(struct job_run *run);
/* Its deadline has passed: timeout, naming the stage that it is at. */
void job_run_set_late(struct job_run *run);

#endif
