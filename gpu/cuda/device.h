/*
 * device.h - a CUDA device of the engine: its memory, its slots and its clock; private to gpu.
 *
 * A slot is a stream with its events. It runs one batch at a time: one task, or several small
 * ones. The batch occupies the slot from its first copy until its last copy is complete. Only the
 * loop thread uses these structs. The ended list is the exception: driver threads append to it
 * under the lock.
 */
#pragma once

#include <cuda_runtime.h>

#include "gpu/engine/engine_impl.h"

/* Default of engine_config.hang_grace_s: a device is hung if a task runs this long after its
 * deadline and after its start. */
#define DEVICE_GRACE_S 5
/* If engine_reap was not called for this long while tasks were out, the process was suspended. The
 * device then does not count as hung. */
#define DEVICE_SLEPT_NS 1000000000ull
/* Interval at which slots are queried if they do not report. */
#define DEVICE_POLL_NS 50000000ull
/* The longest time that engine_close waits for running tasks. */
#define DEVICE_CLOSE_NS 5000000000ull

struct cuda_engine;
struct cuda_device;

/* The descriptions of the codec's launches of one batch. */
struct cuda_codec {
    uint8_t *host, *device; /* STREAM_JPEG_BYTES each; the host's is pinned */
    uint8_t *next;          /* in host: where the next description goes */
    size_t room;            /* bytes from there on */
};

struct cuda_slot {
    struct cuda_device *device;
    cudaStream_t stream;
    cudaEvent_t start, copied_in, computed, copied_out;
    cudaEvent_t decoded, passed; /* between copied_in and computed, if has_codec */
    struct list tasks;           /* The batch. Empty: none, or the tasks ended when the device
                                    failed. */
    struct list_node ended_node; /* in the engine's ended list */
    struct cuda_codec codec;
    bool busy;                   /* from enqueueing until the stream has reported its end */
    bool measured;               /* all events were recorded */
    bool has_codec;              /* a task of the batch decodes or encodes on the device */
    uint64_t started_ns;
    uint64_t deadline_ns;        /* earliest of the batch; 0: none */
    int base;                    /* index of the clock's base for the times of this batch; -1:
                                    none */
};

/*
 * Converts event times to seconds.
 *
 * CUDA gives the time between two events as float milliseconds, which lose precision within the
 * hour. Times are therefore measured from a base event that is renewed every few seconds. There
 * are two bases, because batches that started under the old one are still running after a renewal.
 *
 * To map device time to CLOCK_MONOTONIC, the host's clock is read just before a base is recorded
 * on an idle stream. If a task then seems to have started before it was enqueued, the base is
 * moved to a later time. The two clocks soon differ by no more than the shortest latency of the
 * device.
 */
struct cuda_clock {
    cudaEvent_t base[2];
    double base_s[2]; /* position of each base on one time line */
    uint64_t host_ns[2]; /* CLOCK_MONOTONIC of each base */
    bool known[2];    /* whether base_s is set */
    unsigned users[2];
    int current;
    uint64_t renewed_ns;
};

struct cuda_device {
    struct engine_device base;
    struct cuda_engine *engine;
    int ordinal;
    unsigned reserved; /* jobs that hold memory on this device */
    struct cuda_slot *slots;
    struct list waiting; /* tasks that take a slot each, FIFO */
    struct list small;   /* small tasks, which share a slot */
    struct cuda_clock clock;
};

struct cuda_engine {
    struct engine base;
    void (*wake)(void *context);
    void *wake_context;
    struct cuda_device devices[DEVICES_MAX];
    pthread_mutex_t lock; /* guards `ended` */
    struct list ended;    /* slots whose streams have reported their end */
    struct list finished; /* tasks whose `done` engine_reap will call */
    uint64_t hang_grace_ns;
    uint64_t polled_ns;
    uint64_t awake_ns; /* when the process last resumed after a suspension, or 0 */
    bool pageable_said;
};

static inline struct cuda_engine *cuda_engine(struct engine *engine)
{
    return container_of(engine, struct cuda_engine, base);
}

static inline struct engine_task *cuda_task(struct list_node *node)
{
    return container_of(node, struct engine_task, node);
}

/* ---- device.c ---- */

/* Initializes a zeroed device: pool, slots, events, clock. Errors: gpu_failed, out_of_memory. Call
 * cuda_device_close after an error as well. */
enum status cuda_device_open(struct cuda_device *device, struct cuda_engine *engine, int ordinal,
                             const struct engine_config *config, struct error *error) MUST_CHECK;
/* Idempotent. The device must be idle. */
void cuda_device_close(struct cuda_device *device);

/* Pinned memory from cudaHostAlloc; pageable memory if that fails. */
struct pool_backend cuda_pinned_backend(struct cuda_engine *engine);

/* Chooses the clock's base for a slot that is about to start on its idle stream. */
cudaError_t cuda_clock_start(struct cuda_device *device, struct cuda_slot *slot);
/* Releases the base. */
void cuda_clock_stop(struct cuda_device *device, struct cuda_slot *slot);
/* Time of an event of the slot, in seconds on the device's time line. false: not known. */
bool cuda_clock_time(struct cuda_device *device, const struct cuda_slot *slot, cudaEvent_t event,
                     double *time_s);
/* CLOCK_MONOTONIC of the slot's start, for a batch from start_s to end_s on the device's time line.
 * The result is not before the batch was enqueued, and its end is not in the future. */
uint64_t cuda_clock_host_ns(struct cuda_device *device, const struct cuda_slot *slot,
                            double start_s, double end_s);

/* ---- batch.c ---- */

/* Enqueues copies, kernels and events for the slot's tasks. If a call for a task fails, the task's
 * error is set and the rest of the task is skipped. Returns a sticky error. */
cudaError_t cuda_batch_enqueue(struct cuda_slot *slot) MUST_CHECK;
/* For a measured batch that has ended: sets the times of each task without an error, and adds to
 * the activity. */
void cuda_batch_take_times(struct cuda_slot *slot);

/* The plan's buffers on the task's device. */
struct pass_buffers cuda_buffers(const struct engine_task *task);

/* ---- codec.c ---- */

/* Allocates the slot's descriptions. Call cuda_codec_close after an error as well. */
cudaError_t cuda_codec_open(struct cuda_slot *slot);
void cuda_codec_close(struct cuda_slot *slot);
/* Enqueue the decoders, and then the encoders, of the slot's tasks without an error. */
cudaError_t cuda_codec_decode(struct cuda_slot *slot) MUST_CHECK;
cudaError_t cuda_codec_encode(struct cuda_slot *slot) MUST_CHECK;

/* ---- task.c ---- */

/* Latches the fault and fails all tasks. Tasks on the struck device may be the cause and are
 * charged; NULL: none is charged. If result is cudaSuccess, `what` is the whole description. */
void cuda_latch_fault(struct cuda_engine *engine, const struct cuda_device *struck,
                      const char *what, cudaError_t result);

/* For CUDA calls outside tasks. A sticky error may be the fault of another device. All devices are
 * queried, and the fault is latched for the failed device, or for this device if none reports an
 * error. The caller handles other errors. */
void cuda_note_error(struct cuda_device *device, const char *what, cudaError_t result);

void cuda_submit(struct engine *engine, struct engine_task *task);
void cuda_start(struct engine *engine);
void cuda_reap(struct engine *engine);
