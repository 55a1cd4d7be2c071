/*
 * device.h - a CUDA device of the engine: its memory, its slots, its clock.
 *
 * Private to gpu; loop thread only, but for the ended list, which driver threads fill. A slot is a
 * stream with its events; a batch, which is a task or several small ones, has a slot from its first
 * copy until its last one has ended.
 */
#ifndef GPUIMGD_GPU_CUDA_DEVICE_H
#define GPUIMGD_GPU_CUDA_DEVICE_H

#include <pthread.h>

#include <cuda_runtime.h>

#include "gpu/engine/activity.h"
#include "gpu/engine/engine_impl.h"

/* A task that is still on a device this long after its deadline, and after it was put there, will
 * not come back; unless the engine was told another time. */
#define DEVICE_GRACE_S 5
/* Tasks out and no look at them for so long: the process stood still, not the device. */
#define DEVICE_SLEPT_NS 1000000000ull
/* How often slots are asked how they are, when nothing else is heard of them. */
#define DEVICE_POLL_NS 50000000ull
/* How long engine_close waits for what is on the devices. */
#define DEVICE_CLOSE_NS 5000000000ull

struct cuda_engine;
struct cuda_device;

struct cuda_slot {
    struct cuda_device *device;
    cudaStream_t stream;
    cudaEvent_t start, copied_in, computed, copied_out;
    struct list tasks;           /* the batch; empty: none, or answered when the device failed */
    struct list_node ended_node; /* on the engine's ended list */
    bool busy;                   /* from enqueueing until the stream has reported the end */
    bool measured;               /* all events were recorded */
    uint64_t started_ns;
    uint64_t deadline_ns;        /* the earliest of the batch's; 0: none */
    int base;                    /* which of the clock's bases its times are told from */
};

/* Event times are float milliseconds from one event to another, and lose their precision within
 * the hour. So they are told from a base event that is renewed every few seconds; there are two,
 * because tasks that began under the old one are still out then.
 *
 * Beside each base the host's clock is read, just before it is recorded on an idle stream. Since
 * nothing begins before it was asked for, a task that seems to have done so moves its base to a
 * later time: soon the two clocks are apart by no more than the shortest way to the device. */
struct cuda_clock {
    cudaEvent_t base[2];
    double base_s[2]; /* on one time line */
    uint64_t host_ns[2]; /* CLOCK_MONOTONIC when the base took place */
    bool known[2];    /* whether base_s is */
    unsigned users[2];
    int current;
    uint64_t renewed_ns;
};

struct cuda_device {
    struct cuda_engine *engine;
    int ordinal;
    char name[24]; /* "cuda:0" */
    struct pool *pool;
    unsigned reserved; /* jobs that hold memory here */
    struct cuda_slot *slots;
    uint32_t slot_count;
    struct list waiting; /* tasks that take a slot each, first in first out */
    struct list small;   /* those that share one */
    struct cuda_clock clock;
    struct activity activity;
    uint64_t h2d_bytes, d2h_bytes, turns, tasks;
};

struct cuda_engine {
    struct engine base;
    void (*wake)(void *context);
    void *wake_context;
    struct cuda_device devices[DEVICES_MAX];
    uint32_t device_count;
    pthread_mutex_t lock; /* guards ended */
    struct list ended;    /* slots whose streams have reported */
    struct list finished; /* tasks that await their done, in engine_reap */
    uint64_t hang_grace_ns;
    uint64_t polled_ns;
    uint64_t awake_ns; /* when the process last came back from standing still, or 0 */
    bool pageable_said;
};

/* ---- device.c ---- */

/* Fills in a zeroed device: pool, slots, events, clock. gpu_failed, out_of_memory; in either
 * case cuda_device_close is due. */
enum status cuda_device_open(struct cuda_device *device, struct cuda_engine *engine, int ordinal,
                             const struct engine_config *config, struct error *error) MUST_CHECK;
/* Idempotent; nothing may be on the device. */
void cuda_device_close(struct cuda_device *device);

/* Pinned memory, with cudaHostAlloc; pages of the plain kind where that fails. */
struct pool_backend cuda_pinned_backend(struct cuda_engine *engine);

/* Chooses the base for a slot that is about to start, on its idle stream. */
cudaError_t cuda_clock_start(struct cuda_device *device, struct cuda_slot *slot);
/* Gives the base back. */
void cuda_clock_stop(struct cuda_device *device, struct cuda_slot *slot);
/* When an event of the slot took place, in seconds. false: not known. */
bool cuda_clock_time(struct cuda_device *device, const struct cuda_slot *slot, cudaEvent_t event,
                     double *time_s);
/* CLOCK_MONOTONIC of the slot's start, for a task that took from start_s to end_s by the device's
 * clock; not before it was put on the stream, and such that it has ended by now. */
uint64_t cuda_clock_host_ns(struct cuda_device *device, const struct cuda_slot *slot,
                            double start_s, double end_s);

/* ---- batch.c ---- */

/* Puts all that the slot's tasks need on its stream, and events between. A call that fails for one
 * task sets its error, and nothing more of it is put there. Returns an error that lasts. */
cudaError_t cuda_batch_enqueue(struct cuda_slot *slot) MUST_CHECK;
/* When it has ended, measured: gives each task that is well its times, adds to the activity. */
void cuda_batch_take_times(struct cuda_slot *slot);

/* ---- task.c ---- */

/* Latches the fault and ends all tasks; those on the struck device (NULL: on none) may be the cause
 * of it. result: cudaSuccess where `what` says all. */
void cuda_latch_fault(struct cuda_engine *engine, const struct cuda_device *struck,
                      const char *what, cudaError_t result);

/* For calls beside tasks: a sticky error is somebody's fault, who is looked for among all devices;
 * where nobody is found it is this one's. Other errors are the caller's. */
void cuda_note_error(struct cuda_device *device, const char *what, cudaError_t result);

void cuda_submit(struct engine *engine, struct engine_task *task);
void cuda_start(struct engine *engine);
void cuda_reap(struct engine *engine);

#endif
