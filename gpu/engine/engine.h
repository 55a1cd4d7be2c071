/*
 * engine.h - runs image-processing plans on the CPU or on CUDA devices, with bit-identical
 * results.
 *
 * There are two engines. The CPU engine is synchronous: a worker thread calls engine_run, which
 * returns after the last pass. The CUDA engine is asynchronous and has one thread per device. A
 * task takes these steps:
 *
 * - engine_reserve reserves all the memory that the job needs, in the pinned pool and a device pool
 * - engine_submit queues the task for its device and returns at once
 * - the device's thread enqueues upload, kernels and download on a free stream
 * - a host callback on a driver thread wakes the device's thread, which calls the task's `done`
 * - engine_release returns the memory, after the result has been encoded
 *
 * Tasks that wait for the same device are batched if they are small (BATCH_TASK_BYTES) or use the
 * JPEG codec: up to BATCH_TASKS of them, or BATCH_TASKS_MAX small ones, share one stream, with all
 * uploads first, then all kernels, then all downloads. A batch takes only the tasks that wait. A
 * task waits for others only while small batches of the codec run (BATCHES_SMALL).
 *
 * A device that fails leaves service: its tasks fail, and the other devices continue. The engine
 * has a fault when no device is left.
 *
 * All functions but engine_open, engine_close, engine_prepare_codecs and engine_set_codecs may be
 * called on any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/list.h"
#include "conf/rank.h"
#include "conf/status.h"
#include "gpu/engine/pool.h"
#include "gpu/plan/plan.h"

struct engine;

struct engine_config {
    const char *kind;     /* "auto", "cuda" or "cpu" */
    const char *devices;  /* "all", CUDA ordinals: "0,2", or UUIDs */
    uint32_t streams;     /* streams per device; 0: chosen by its copy engines */
    size_t pinned_bytes;  /* budget of the pinned pool */
    size_t device_bytes;  /* budget per device; 0: a quarter of its free memory at start */
    double hang_grace_s;  /* a device that still runs a task this long after the task's deadline
                             is treated as hung; 0: DEVICE_GRACE_S */
    void (*failed)(void *context); /* Optional. Called once, on any thread, when engine_fault is
                                      set; it must not call the engine. */
    void *context;
};

/* The memory that a job holds from its admission until its result is encoded. All zero: none. */
struct engine_memory {
    uint8_t *input;   /* pinned; plan->input_bytes */
    uint8_t *output;  /* pinned; plan->output_bytes */
    uint8_t *scratch; /* plan->scratch_bytes; CPU engine only */
    uint32_t device;  /* index into the engine's devices */
    struct pool_block pinned_block, device_block;
    bool stuck;       /* private to the engine: a failed device may still access it */
};

/* One run of a plan on one image. Owned by the caller; must stay valid until `done` is called. */
struct engine_task {
    struct list_node node; /* belongs to the engine until `done` is called, and then to the
                              caller */
    const struct plan *plan;
    struct engine_memory *memory;
    uint64_t deadline_ns;  /* CLOCK_MONOTONIC; 0: none */
    bool alone;            /* never batched with other tasks */
    struct rank rank;      /* of the job: its order in the device's queues */
    bool is_check;         /* runs even if its device is DEVICE_OUT */
    void (*done)(struct engine_task *task); /* Called on the device's thread. It delays all tasks of
                                               the device, so it must be short and must not wait.
                                               Not called by engine_run. */

    /* Set by the engine: */
    struct error error;
    bool on_device;        /* The task was on a device when a sticky error struck it. It may be
                              the cause, so it keeps the attempt that was charged to it. */
    bool returned;         /* gpu_failed because the device left service, and the task is not the
                              cause: it can run again, without a charge */
    double h2d_ms, kernel_ms, d2h_ms; /* durations; a batch's are divided among its tasks by
                                         bytes */
    double decode_ms, encode_ms; /* parts of kernel_ms; 0: that codec does not run on the device */
    uint64_t started_ns;   /* CLOCK_MONOTONIC at the start of the upload; 0: not known */
    uint64_t decode_at_ns, kernel_at_ns, encode_at_ns, d2h_at_ns; /* Start of the decoder, the
                                         passes, the encoder and the download. The shares of a
                                         batch follow each other. */
    uint32_t slot;         /* index of the stream on its device */
    uint64_t submitted_ns; /* this and the next: private to the engine */
    size_t description_bytes; /* of the launches of its codecs */
};

enum engine_reserved { ENGINE_RESERVED, ENGINE_WAIT, ENGINE_NEVER };

/* Opens the engine. With "auto" and no usable device, opens the CPU engine and logs one WARNING.
 * Returns gpu_failed if "cuda" was requested and no device is usable, or if a device fails. */
enum status engine_open(const struct engine_config *config, struct engine **engine,
                        struct error *error) MUST_CHECK;
/* Waits a few seconds at most for running tasks, then frees everything. NULL is ignored. */
void engine_close(struct engine *engine);

/* The codecs that run on every device. The caller sets them after it has tested them; none is set
 * at first, and before the first other task. */
struct engine_codecs {
    bool jpeg_decoder, jpeg_encoder;
};
/* Takes what the codecs need on every device besides the pools: PROGRESSIVE_STREAMS further
 * streams; and memory, pinned and on the device: STREAM_JPEG_BYTES per stream and
 * PROGRESSIVE_JPEG_BYTES per further stream. false: it is not a CUDA engine, or it lacks that
 * memory or pinned memory. */
bool engine_prepare_codecs(struct engine *engine);
void engine_set_codecs(struct engine *engine, struct engine_codecs codecs);
struct engine_codecs engine_codecs(const struct engine *engine);

bool engine_is_synchronous(const struct engine *engine);
/* "cpu", or "cuda:0" with the CUDA ordinal of device index 0. Valid until engine_close. */
const char *engine_name(const struct engine *engine, uint32_t device);
/* For logs: "NVIDIA H200, 132 SMs, 8 streams, driver 13.0" or "CPU (avx512)". */
const char *engine_description(const struct engine *engine);
/* Number of devices; 0 for the CPU engine. */
uint32_t engine_devices(const struct engine *engine);
/* Number of slots: streams of all devices, without those for progressive files; 0 for the CPU
 * engine. */
uint32_t engine_slots(const struct engine *engine);
/* The same for the device with this index. */
uint32_t engine_slots_of(const struct engine *engine, uint32_t device);

/* Whether the plan's memory can ever be reserved. */
bool engine_fits(const struct engine *engine, const struct plan *plan);
/* Whether the plan would fit now into free pinned memory that the engine already holds. Reserves
 * nothing. */
bool engine_has_room(const struct engine *engine, const struct plan *plan);
/* Reserves input, output, scratch and device memory for the plan, all or nothing, on a device in
 * service. ENGINE_WAIT: retry after an engine_release. ENGINE_NEVER: over_budget or out_of_memory,
 * with pool, need and option in the text. */
enum engine_reserved engine_reserve(struct engine *engine, const struct plan *plan,
                                    struct engine_memory *memory, struct error *error);
/* As engine_reserve, on the device with this index, which is less than engine_devices and may be
 * DEVICE_OUT. ENGINE_NEVER: also gpu_failed, for a device that has failed. */
enum engine_reserved engine_reserve_on(struct engine *engine, uint32_t device,
                                       const struct plan *plan, struct engine_memory *memory,
                                       struct error *error);
void engine_release(struct engine *engine, struct engine_memory *memory); /* idempotent */

/* CPU engine: runs the task on the calling thread and sets task->error and the times. */
void engine_run(struct engine *engine, struct engine_task *task);

/* The same without an engine: with the loops of the CPU, in any memory of the plan's sizes. */
void engine_run_here(struct engine_task *task);

/* CUDA engine: queues the task for the device of its memory. `done` is always called, also after an
 * error, unless the engine is closed before. */
void engine_submit(struct engine *engine, struct engine_task *task);

enum engine_device_state {
    DEVICE_IN_SERVICE,
    DEVICE_OUT,   /* It failed a check. It runs only tasks with is_check, and can come back. */
    DEVICE_FAILED /* A sticky error or a hang: it runs nothing until the process is restarted. */
};
enum engine_device_state engine_device_state(const struct engine *engine, uint32_t device);
/* CUDA engine: takes a device that failed a check out of service, or puts it back after a passed
 * one; a device that has failed stays so. The tasks of a device that leaves fail as `returned`. If
 * no other device is in service, `why` becomes the engine's fault. why is unused for true. */
void engine_set_in_service(struct engine *engine, uint32_t device, bool in_service,
                           const char *why);
/* The fault of the engine, or NULL: no device is left in service. After a fault every task fails
 * with gpu_failed, and the process must be restarted. */
const struct error *engine_fault(const struct engine *engine);

/* Busy times of a device, from CUDA events, in seconds. gpu_busy and overlap are derived from
 * them. */
struct engine_activity {
    double h2d_s, kernel_s, d2h_s; /* union of the intervals of each kind */
    double any_s;                  /* union of all intervals */
    uint64_t h2d_bytes, d2h_bytes;
    uint64_t turns, tasks;         /* batches that ended on a stream, and their tasks */
};
/* Adds the activity since the last call to *total. The CPU engine has device 0. */
void engine_take_activity(struct engine *engine, uint32_t device, struct engine_activity *total);

struct pool_usage engine_pinned_usage(const struct engine *engine);
struct pool_usage engine_device_usage(const struct engine *engine, uint32_t device);
