/*
 * engine.h - carries out plans, on the CPU or on CUDA devices, with the same bits.
 *
 * All functions but engine_run are called on the loop thread; of the synchronous engine
 * engine_reserve, engine_release and engine_pinned_usage may be called on any thread. The engine
 * owns the pinned pool and the device pools; a job reserves all it needs at once (engine_reserve)
 * and keeps it until it has been encoded. The CPU engine is synchronous: a worker calls engine_run.
 * The CUDA engine is asynchronous: engine_submit takes a task, engine_start puts copy-in, kernels
 * and copy-out on a stream, a host callback calls `wake` (from a driver thread), and the loop then
 * calls engine_reap, which calls done. Small tasks (BATCH_TASK_BYTES) that wait for one device go
 * onto a stream together, BATCH_TASKS_MAX of them at most: all copies in, all kernels, all copies
 * out.
 */
#ifndef GPUIMGD_GPU_ENGINE_ENGINE_H
#define GPUIMGD_GPU_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/list.h"
#include "conf/status.h"
#include "gpu/engine/pool.h"
#include "gpu/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct engine;

struct engine_config {
    const char *kind;     /* "auto", "cuda" or "cpu" */
    const char *devices;  /* "all" or "0,2": CUDA ordinals */
    uint32_t streams;     /* slots a device; 0 = as many as it calls for */
    size_t pinned_bytes;  /* budget of the pinned pool */
    size_t device_bytes;  /* budget a device; 0 = a quarter of what is free at start */
    double hang_grace_s;  /* a task that is still on a device so long after its deadline will not
                             come back; 0 = DEVICE_GRACE_S */
    void (*wake)(void *context); /* called from any thread: please call engine_reap on the loop */
    void *wake_context;
};

/* What a job holds from admission to the end of its encoding. All zero: nothing. */
struct engine_memory {
    uint8_t *input;   /* plan->input_bytes, pinned */
    uint8_t *output;  /* plan->output_bytes, pinned */
    uint8_t *scratch; /* plan->scratch_bytes, CPU engine only */
    uint32_t device;  /* index into the engine's devices */
    struct pool_block pinned_block, device_block;
};

/* One plan over one image. Caller-owned, must stay until done is called. */
struct engine_task {
    struct list_node node; /* the engine's while it runs */
    const struct plan *plan;
    const struct engine_memory *memory;
    uint64_t deadline_ns;  /* CLOCK_MONOTONIC; 0 = none */
    bool alone;            /* it shares a stream with no other, and waits for none */
    void (*done)(struct engine_task *task); /* on the loop, from engine_reap; not from engine_run */

    /* Set by the engine: */
    struct error error;
    bool on_device;        /* a sticky error struck while this task was on the device: it may be
                              the cause, and keeps the attempt that was charged to it */
    double h2d_ms, kernel_ms, d2h_ms; /* of what several took together, its share by bytes */
    uint64_t started_ns;   /* CLOCK_MONOTONIC when the first of them began; 0: not known */
    uint64_t kernel_at_ns, d2h_at_ns; /* when the others did; shares stand one behind the other */
    uint32_t slot;         /* which of its device's streams it was on */
    uint64_t submitted_ns; /* the engine's */
};

enum engine_reserved { ENGINE_RESERVED, ENGINE_WAIT, ENGINE_NEVER };

/* Opens the engine. "auto" without a usable device gives the CPU engine and says so once at
 * WARNING. gpu_failed: "cuda" was asked for and is not there, or a device fails. */
enum status engine_open(const struct engine_config *config, struct engine **engine,
                        struct error *error) MUST_CHECK;
/* Waits for what is on the devices (bounded by a few seconds), frees everything. Takes NULL. */
void engine_close(struct engine *engine);

bool engine_is_synchronous(const struct engine *engine);
/* "cpu", or "cuda:0" for device index 0 (the CUDA ordinal is shown). Static while open. */
const char *engine_name(const struct engine *engine, uint32_t device);
/* For people: "NVIDIA H200, 132 SMs, 8 streams, driver 13.0" or "CPU (avx512)". */
const char *engine_description(const struct engine *engine);
/* How many devices it has, 0 for the CPU engine. */
uint32_t engine_devices(const struct engine *engine);
/* Jobs that can be on the engine at once: devices x streams, 0 for the CPU engine. */
uint32_t engine_slots(const struct engine *engine);
/* Of the device of this index alone. */
uint32_t engine_slots_of(const struct engine *engine, uint32_t device);

/* Whether the plan finds room in the pinned memory that the engine holds already, unless somebody
 * else is given it first. */
bool engine_has_room(const struct engine *engine, const struct plan *plan);
/* Reserves input, output, scratch and device memory for the plan, all or nothing. ENGINE_WAIT:
 * try again after an engine_release; ENGINE_NEVER: over_budget, naming pool, need and option. */
enum engine_reserved engine_reserve(struct engine *engine, const struct plan *plan,
                                    struct engine_memory *memory, struct error *error);
/* The same on the device of this index, of engine_devices. */
enum engine_reserved engine_reserve_on(struct engine *engine, uint32_t device,
                                       const struct plan *plan, struct engine_memory *memory,
                                       struct error *error);
void engine_release(struct engine *engine, struct engine_memory *memory); /* idempotent */

/* Synchronous engine: runs the plan on the calling worker; sets task->error and the times. */
void engine_run(struct engine *engine, struct engine_task *task);

/* Asynchronous engine: queues the task, which waits for engine_start and for a stream of its
 * device. Always answered by done, errors included. */
void engine_submit(struct engine *engine, struct engine_task *task);
/* Asynchronous engine: starts what waits and may start. To be called whenever tasks were
 * submitted, before the caller waits for anything: those that it submits meanwhile share a
 * stream. */
void engine_start(struct engine *engine);
/* Calls done for all tasks that have ended and starts waiting ones. Also to be called every
 * 100 ms or so while tasks are out: it then looks for tasks past their deadline, and for context
 * errors, after which no callback ever comes. */
void engine_reap(struct engine *engine);
/* The sticky fault that struck the engine, or NULL. Once set, every task ends in gpu_failed and
 * the process must be replaced. */
const struct error *engine_fault(const struct engine *engine);
/* Asynchronous engine: makes a fault of what somebody else found out about it. No task is charged
 * with that one. */
void engine_condemn(struct engine *engine, const char *why);

/* Sums since the last call (and then reset), from the events: for gpu_busy and overlap.
 * Seconds, over all devices; the unions are computed a device. */
struct engine_activity {
    double h2d_s, kernel_s, d2h_s; /* unions of the intervals of each kind */
    double any_s;                  /* union of all */
    uint64_t h2d_bytes, d2h_bytes;
    uint64_t turns, tasks;         /* turns on CUDA streams that have ended, and whose tasks */
};
struct engine_activity engine_take_activity(struct engine *engine);
/* Of the device of this index alone; index 0 of the CPU engine is all of it. */
struct engine_activity engine_take_activity_of(struct engine *engine, uint32_t device);

struct pool_usage engine_pinned_usage(const struct engine *engine);
struct pool_usage engine_device_usage(const struct engine *engine); /* sum over devices */
struct pool_usage engine_device_usage_of(const struct engine *engine, uint32_t device);

#ifdef __cplusplus
}
#endif
#endif
