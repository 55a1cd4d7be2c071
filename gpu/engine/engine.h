/*
 * engine.h - runs image-processing plans on the CPU or on CUDA devices, with bit-identical
 * results.
 *
 * There are two engines. The CPU engine is synchronous: a worker thread calls engine_run, which
 * returns after the last pass of the plan. The CUDA engine is asynchronous and has one thread per
 * device. A job uses it as follows:
 *
 * - engine_reserve reserves all memory that the job needs, in the pinned pool and a device pool
 * - engine_submit queues a task (the job's plan and memory) for the device, and returns at once
 * - the device's thread enqueues the task's upload, kernels and download on a free stream
 * - when the stream has ended, the device's thread calls the task's `done`
 * - engine_release returns the memory, after the result has been encoded
 *
 * Tasks that wait for the same device share a stream as one batch if they need little memory
 * (BATCH_TASK_BYTES) or use the JPEG codec of the device. All uploads of a batch come first, then
 * all kernels, then all downloads. A batch has at most BATCH_TASKS_MAX tasks if it is light, that
 * is, if its images have few pixels together (BATCH_PIXELS_LIGHT); otherwise BATCH_TASKS_HEAVY. It
 * starts with the tasks that wait when a stream is free. A task that uses the codec also waits for
 * others while BATCHES_LIGHT light batches run, and small images may then have more pixels together
 * (BATCH_PIXELS_SMALLS).
 *
 * A device that fails leaves service: its tasks fail, and the other devices continue. When no
 * device is left in service, the engine has a fault (engine_fault).
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
    uint32_t streams;     /* streams per device; 0: by the number of the device's copy engines */
    size_t pinned_bytes;  /* budget of the pinned pool */
    size_t device_bytes;  /* budget per device; 0: a quarter of its free memory at start */
    double hang_grace_s;  /* a device that still runs a task this long after the task's deadline
                             is treated as hung; 0: DEVICE_HANG_GRACE_S */
    void (*failed)(void *context); /* Optional. Called once, on any thread, when engine_fault is
                                      set; it must not call the engine. */
    void *context;
};

/* The memory that engine_reserve reserves for a job. All zero: none is reserved. */
struct engine_memory {
    uint8_t *input;   /* pinned (with the CPU engine: ordinary pages); plan->input_bytes */
    uint8_t *output;  /* the same; plan->output_bytes */
    uint8_t *scratch; /* plan->scratch_bytes; CPU engine only */
    uint32_t device;  /* index into the engine's devices */
    struct pool_block pinned_block, device_block;
    bool stuck; /* private to the engine: a failed device may still write to this memory */
};

/* One run of a plan on one image. Owned by the caller. It must stay valid until `done` is
 * called. */
struct engine_task {
    struct list_node node; /* for the engine until `done` is called, then for the caller */
    const struct plan *plan;
    struct engine_memory *memory;
    uint64_t deadline_ns;  /* CLOCK_MONOTONIC; 0: none */
    bool alone;            /* never in a batch with other tasks */
    struct rank rank;      /* the job's: orders the tasks in a device's queue */
    bool is_check;         /* a check of the device: it runs even if the device is DEVICE_OUT */
    void (*done)(struct engine_task *task); /* Called on the device's thread. It delays all tasks of
                                               the device, so it must be short and must not wait.
                                               Not called by engine_run. */

    /* Set by the engine: */
    bool more; /* When `done` is called: right after it, the thread will call the same function for
                  another task, so that both can be handed to other threads together. */
    struct error error;
    bool suspect;  /* The task was running on the device when a sticky error or a hang ended
                      it, so the task may be the cause. Its attempt counts. */
    bool returned; /* The device left service, and the task is not the cause. It can run
                      again, and its attempt does not count. The error is gpu_failed. */
    double h2d_ms, kernel_ms, d2h_ms; /* Durations of the upload, the kernels and the download. In a
                                         batch, each is divided among the tasks by bytes. */
    double decode_ms, encode_ms; /* parts of kernel_ms; 0: the device does not decode, or encode */
    uint64_t started_ns;   /* CLOCK_MONOTONIC at the start of the upload; 0: not known */
    uint64_t decode_at_ns, kernel_at_ns, encode_at_ns, d2h_at_ns; /* Start of the decoder, the
                                         passes, the encoder and the download; 0: not known. In a
                                         batch, the tasks' shares of a part follow each other. */
    uint32_t slot;            /* the index of the stream among the streams of its device */
    uint32_t decode_slot;     /* the same for the upload and the decoder */
    uint64_t submitted_ns;    /* this member and the following are private to the engine */
    uint32_t queue;           /* enum cuda_queue: the one in which the task waits first */
    uint64_t pixels;          /* of its source */
    uint32_t images;          /* images that the device encodes */
    uint32_t encoders;        /* for them: a bit per encoder, 1 << index in the table of
                                 cuda_codec.c */
    size_t description_bytes; /* Upper bound of the bytes that the task adds to the descriptions of
                                 its batch; SIZE_MAX: the device cannot encode its images. */
    size_t scans_bytes;       /* The same for a progressive file's first batch, or 0. The member
                                 before is then for its second batch. */
    size_t scans_at;          /* of a progressive file: jpeg_scans_at */
    double part_bytes[5];     /* by which it shares the times of its batch: cuda_batch.c */
    bool has_own_tables;      /* its file's Huffman tables are read to describe its batch */
    const void *prepared;     /* jpeg_decode_image.prepared */
};

/* A device runs hundreds of tasks together. Before it ends them, its thread prefetches each task
 * and this many bytes before it, which should have what `done` uses of the caller's data: each
 * cache miss takes 100 ns. A task may be anywhere, because a prefetch never faults. */
#define ENGINE_BESIDE_BYTES 320

/* Whether memory was reserved, can be reserved later, or can never be. */
enum engine_reserved { ENGINE_RESERVED, ENGINE_WAIT, ENGINE_NEVER };

/* Opens the engine of config->kind. "auto" opens the CPU engine and logs one WARNING if CUDA has no
 * usable device. Returns gpu_failed if kind is "cuda" and no device is usable, or if a device
 * cannot be opened. */
enum status engine_open(const struct engine_config *config, struct engine **engine,
                        struct error *error) MUST_CHECK;
/* Waits a few seconds at most for running tasks, then frees everything. `done` is not called for
 * tasks that have not ended. NULL is ignored. */
void engine_close(struct engine *engine);

/* The codecs that the caller may use on every device. The engine only stores them: the caller sets
 * them after it has tested the codecs, and before it submits jobs. None is set at first. */
struct engine_codecs {
    bool decodes[DEVICE_CODECS], encodes[DEVICE_CODECS];
};
/* Allocates what the codecs need on every device besides the pools: LONG_STREAMS further
 * streams, and for each stream STREAM_CODEC_BYTES (for each further stream LONG_CODEC_BYTES)
 * of pinned memory and as much device memory. false: the engine is not CUDA's, or the system or a
 * device does not have the memory. */
bool engine_prepare_codecs(struct engine *engine);
void engine_set_codecs(struct engine *engine, struct engine_codecs codecs);
struct engine_codecs engine_codecs(const struct engine *engine);

bool engine_is_synchronous(const struct engine *engine);
/* The name of the device with this index: "cpu", or "cuda:N" with CUDA's ordinal of the device.
 * Valid until engine_close. */
const char *engine_name(const struct engine *engine, uint32_t device);
/* For logs: "NVIDIA H200, 132 SMs, 8 streams, driver 13.0" or "CPU (avx512)". */
const char *engine_description(const struct engine *engine);
/* Number of devices; 0 for the CPU engine. */
uint32_t engine_devices(const struct engine *engine);
/* Number of streams of all devices, without those for progressive files; 0 for the CPU engine. */
uint32_t engine_slots(const struct engine *engine);
/* The same for the device with this index. */
uint32_t engine_slots_of(const struct engine *engine, uint32_t device);

/* Whether the plan's memory is within the budgets of the pools, so that it can be reserved at some
 * time. */
bool engine_fits(const struct engine *engine, const struct plan *plan);
/* The pinned memory that engine_reserve takes, in one block. */
size_t engine_pinned_need(const struct engine *engine, const struct plan *plan);
/* Whether the pinned pool has free memory for the plan now, without allocating more from the
 * system. Reserves nothing. */
bool engine_has_room(const struct engine *engine, const struct plan *plan);
/* Reserves all memory for the plan, or none; for the CUDA engine on any device in service.
 * ENGINE_WAIT: retry after an engine_release. ENGINE_NEVER: the error is over_budget or
 * out_of_memory; its text names the pool, the bytes and the option that limits them. */
enum engine_reserved engine_reserve(struct engine *engine, const struct plan *plan,
                                    struct engine_memory *memory, struct error *error);
/* As engine_reserve, on the device with this index, below engine_devices; it may be DEVICE_OUT. If
 * the device has failed, the result is ENGINE_NEVER with gpu_failed. */
enum engine_reserved engine_reserve_on(struct engine *engine, uint32_t device,
                                       const struct plan *plan, struct engine_memory *memory,
                                       struct error *error);
void engine_release(struct engine *engine, struct engine_memory *memory); /* idempotent */

/* CPU engine: runs the task on the calling thread, and sets the task's error and times. */
void engine_run(struct engine *engine, struct engine_task *task);

/* As engine_run, but without an engine: the caller provides memory of the plan's sizes. */
void engine_run_here(struct engine_task *task);

/* CUDA engine: queues the task for the device on which its memory is reserved. `done` is called
 * later in any case, also after an error, unless the engine is closed before. */
void engine_submit(struct engine *engine, struct engine_task *task);

enum engine_device_state {
    DEVICE_IN_SERVICE,
    DEVICE_OUT,   /* The device failed a check. It runs only tasks with is_check, and can come
                     back. */
    DEVICE_FAILED /* A CUDA error ended the device's context, or a task hangs. The device runs
                     nothing until the process is restarted. */
};
enum engine_device_state engine_device_state(const struct engine *engine, uint32_t device);
/* CUDA engine. in_service false: takes the device out of service, because it failed a check. Its
 * tasks fail with engine_task.returned and the error `why`; if no other device is in service, `why`
 * becomes the engine's fault. true: puts the device back after it passed a check; `why` is unused.
 * A device that is DEVICE_FAILED stays so. */
void engine_set_in_service(struct engine *engine, uint32_t device, bool in_service,
                           const char *why);
/* Returns the engine's fault: why its last device left service; NULL: the engine works. After a
 * fault every task fails with gpu_failed, and the process must be restarted. */
const struct error *engine_fault(const struct engine *engine);

/* For how long a device was busy, in seconds, and with how much. Time in which several copies, or
 * several kernels, overlap counts once. */
struct engine_activity {
    double h2d_s, kernel_s, d2h_s; /* with uploads, kernels and downloads */
    double any_s;                  /* with at least one of them */
    uint64_t h2d_bytes, d2h_bytes;
    uint64_t turns, tasks; /* batches that have ended, and their tasks */
};
/* Adds the activity since the last call to *total. The CPU engine counts as device 0. */
void engine_take_activity(struct engine *engine, uint32_t device, struct engine_activity *total);

/* The CPU time that the threads of all devices have used, in nanoseconds. */
uint64_t engine_cpu_ns(const struct engine *engine);
struct pool_usage engine_pinned_usage(const struct engine *engine);
struct pool_usage engine_device_usage(const struct engine *engine, uint32_t device);
