/*
 * device.h - a CUDA device of the engine: its memory, its slots and its clock; private to gpu.
 *
 * A slot is a stream with its events. It runs one batch at a time: one task, or several that share
 * it. The batch occupies the slot from its first copy until its last copy is complete. Each device
 * has a thread, which makes all CUDA calls for tasks (thread.c).
 *
 * Locks, in the order in which a thread may take them:
 * - a pool's lock guards its pieces. Its backend makes CUDA calls, and can find that a device fails
 * - cuda_engine.lock guards the changes of the devices' states, with `why` and `struck`
 * - cuda_device.lock guards the members with which other threads reach the device's thread
 * All other members belong to the device's thread, or do not change while the engine is open.
 */
#pragma once

#include <cuda_runtime.h>

#include "gpu/engine/engine_impl.h"
#include "gpu/jpeg/decode.h"
#include "gpu/jpeg/encode.h"
#include "gpu/jpeg/progressive.h"
#include "gpu/plan/pass.h"

/* Default of engine_config.hang_grace_s: a device is hung if a task runs this long after its
 * deadline and after its start. */
#define DEVICE_GRACE_S 5
/* If the device's thread did not run for this long while tasks were out, the process was suspended.
 * The device then does not count as hung. */
#define DEVICE_SLEPT_NS 1000000000ull
/* Interval at which slots are queried, and queued tasks are checked for their deadlines. */
#define DEVICE_POLL_NS 50000000ull
/* Interval at which slots with SLOT_SCANS are queried. The scans of a photograph take 100 ms. */
#define DEVICE_SCANS_NS 1000000ull
/* The longest time that engine_close waits for the threads, and then for running tasks. */
#define DEVICE_CLOSE_NS 5000000000ull

struct cuda_engine;
struct cuda_device;

static_assert(STREAM_JPEG_BYTES % BUFFER_ALIGN == 0 && PROGRESSIVE_JPEG_BYTES % BUFFER_ALIGN == 0,
              "the end of the room is aligned");
/* The codec's launches of one batch, with their descriptions. */
struct cuda_codec {
    uint8_t *host, *device; /* `bytes` each; the host's is pinned */
    size_t bytes;
    uint8_t *next;          /* in host: where the next description goes */
    /* In device: the descriptions; NULL: no launch. */
    uint8_t *scans_at, *decoder_at, *encoder_at;
    struct jpeg_progressive_batch scans;
    struct jpeg_decode_batch decoder;
    struct jpeg_encode_batch encoder;
};

/* Tasks of a batch are of one kind. */
enum cuda_queue {
    QUEUE_ALONE,       /* one per batch */
    QUEUE_SMALL,
    QUEUE_CODEC,       /* the device decodes or encodes JPEGs, which share launches */
    QUEUE_PROGRESSIVE, /* The device decodes a progressive file: one per batch, on slots of its
                          own. It takes up to a thousand times as long, so that other tasks must
                          not wait for it. */
    QUEUES
};

enum cuda_slot_state {
    SLOT_FREE,
    SLOT_SCANS, /* The stream has the upload and the scans of a progressive file. The rest follows
                   when they have ended: see thread.c. */
    SLOT_BUSY,  /* the stream has the whole batch, and reports its end */
};

struct cuda_slot {
    struct cuda_device *device;
    cudaStream_t stream;
    cudaEvent_t start, copied_in, computed, copied_out;
    cudaEvent_t decoded, passed; /* between copied_in and computed, if has_codec */
    struct list tasks;           /* The batch. Empty: none, or the tasks ended when the device
                                    failed. */
    struct list_node ended_node; /* in the device's ended list */
    struct cuda_codec codec;
    enum cuda_slot_state state;
    bool measured;               /* all events were recorded */
    bool is_small;               /* the batch has at most BATCH_PIXELS_MIN */
    bool has_codec;              /* a task of the batch decodes or encodes on the device */
    bool has_downloads;          /* Otherwise, kernels write all results to the host, and copied_out
                                    is not recorded. */
    enum cuda_queue queue;       /* of the batch */
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
    atomic_uint reserved; /* jobs that hold memory on this device */
    /* base.slot_count slots, then the progressive ones, which only run QUEUE_PROGRESSIVE. There is
     * room for PROGRESSIVE_STREAMS; they are open from cuda_prepare_codecs on. */
    struct cuda_slot *slots;
    _Atomic uint32_t progressive_count;

    /* Under the engine's lock: */
    struct error why; /* of the last time that the device left service */
    bool struck;      /* by a sticky error or a hang, which a task on it may have caused */

    pthread_mutex_t lock; /* guards the members up to `closing` */
    pthread_cond_t wanted;
    struct list submitted; /* tasks */
    struct list ended;     /* slots whose streams have reported their end */
    bool left;             /* the device left service, and its thread has not failed its tasks */
    bool closing;

    pthread_t thread;
    bool has_thread;
    struct list queues[QUEUES]; /* tasks that wait for a slot, FIFO */
    struct list finished;       /* tasks whose `done` the thread will call */
    size_t held;                /* tasks taken from `submitted` whose `done` was not called */
    size_t scanning;            /* slots with SLOT_SCANS */
    uint64_t polled_ns, scans_polled_ns, looked_ns;
    uint64_t awake_ns;          /* when the process last resumed after a suspension, or 0 */
    struct cuda_clock clock;
};

/* Pinned memory that was released after its device had failed while a task ran. The device may
 * still write to it, so no other task gets it. */
struct stuck_block {
    struct list_node node;
    struct pool_block block;
};

struct cuda_engine {
    struct engine base;
    void (*failed)(void *context);
    void *context;
    struct cuda_device devices[DEVICES_MAX];
    pthread_mutex_t lock; /* guards changes of the devices' states, and `stuck` */
    struct list stuck;    /* struct stuck_block */
    uint64_t hang_grace_ns;
    atomic_bool pageable_said;
};

static inline struct cuda_engine *cuda_engine(struct engine *engine)
{
    return container_of(engine, struct cuda_engine, base);
}

static inline struct engine_task *cuda_task(struct list_node *node)
{
    return container_of(node, struct engine_task, node);
}

/* The plan's buffers on the task's device. */
static inline struct pass_buffers cuda_buffers(const struct engine_task *task)
{
    const struct plan *plan = task->plan;
    struct pass_buffers buffers;
    buffers.input = (uint8_t *)task->memory->device_block.memory;
    buffers.output = buffers.input + buffer_align(plan->input_bytes);
    buffers.scratch = buffers.output + buffer_align(plan->output_bytes - plan->written_bytes);
    return buffers;
}

/* Number of open slots. */
static inline uint32_t cuda_slot_count(const struct cuda_device *device)
{
    return device->base.slot_count + atomic_load(&device->progressive_count);
}

/* ---- device.c ---- */

/* Initializes a zeroed device: pool, slots, events, clock. Errors: gpu_failed, out_of_memory. Call
 * cuda_device_close after an error as well. */
enum status cuda_device_open(struct cuda_device *device, struct cuda_engine *engine, int ordinal,
                             const struct engine_config *config, struct error *error) MUST_CHECK;
/* Allocates the descriptions of all slots, and opens the progressive slots. While no task runs. */
cudaError_t cuda_device_prepare_codecs(struct cuda_device *device);
/* After cuda_device_open. The device must be idle, and its thread must have ended. */
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

/* ---- uuids.c ---- */

/* Whether the option devices has UUIDs. */
bool cuda_uuids_given(const char *devices);
/* Lets CUDA show only these devices. Call it before the first CUDA call, while no other thread
 * runs. Returns their number; 0: the error is set. */
uint32_t cuda_uuids_select(const char *devices, struct error *error);

/* ---- note.c ---- */

/* Records the outcome of a CUDA call for the task, or for all tasks without an error. Returns a
 * sticky error; any other error becomes the task's. */
cudaError_t cuda_note_task(const struct cuda_slot *slot, struct engine_task *task,
                           cudaError_t result) MUST_CHECK;
cudaError_t cuda_note_tasks(const struct cuda_slot *slot, cudaError_t result) MUST_CHECK;

/* ---- cuda_batch.c ---- */

/* Enqueue copies, kernels and events for the slot's tasks: first the uploads and, of a progressive
 * file, the scans; then the rest. If a call for a task fails, the task's error is set, and what it
 * does not share with other tasks is skipped. Return a sticky error. */
cudaError_t cuda_batch_begin(struct cuda_slot *slot) MUST_CHECK;
cudaError_t cuda_batch_go_on(struct cuda_slot *slot) MUST_CHECK;
/* For a batch that has ended: adds to the activity and, if it was measured, sets the times of each
 * task without an error. */
void cuda_batch_take_times(struct cuda_slot *slot);

/* ---- upload.c ---- */

/* Enqueues the uploads of the tasks without an error. Returns a sticky error. */
cudaError_t cuda_upload(struct cuda_slot *slot) MUST_CHECK;

/* ---- cuda_codec.c ---- */

/* Allocates `bytes` for the slot's descriptions. Call cuda_codec_close after an error as well. */
cudaError_t cuda_codec_open(struct cuda_slot *slot, size_t bytes);
void cuda_codec_close(struct cuda_slot *slot);
/* Describes the launches for the slot's tasks without an error, for cuda_upload. */
cudaError_t cuda_codec_describe(struct cuda_slot *slot) MUST_CHECK;
/* Enqueue what was described: the scans of a progressive file, which become coefficients; the
 * decoders; the encoders. In this order. Their tasks may have failed since: the kernels take any
 * bytes as files and images. */
cudaError_t cuda_codec_scans(struct cuda_slot *slot) MUST_CHECK;
cudaError_t cuda_codec_decode(struct cuda_slot *slot) MUST_CHECK;
cudaError_t cuda_codec_encode(struct cuda_slot *slot) MUST_CHECK;
/* Number of images of the task that the device encodes. */
uint32_t cuda_codec_images(const struct engine_task *task);
/* The room that the task's launches take in the slot's descriptions, also in a batch; SIZE_MAX: the
 * device cannot encode its images. */
size_t cuda_codec_description_bytes(const struct engine_task *task);

/* ---- service.c: the states of the devices. Any thread ---- */

/* The only function that changes a device's state; illegal changes are ignored. `why` is the whole
 * text of the error of the tasks that the device fails. */
void cuda_device_move(struct cuda_device *device, enum engine_device_state to, bool struck,
                      const char *why);
/* The device has failed; the tasks on it may be the cause and are charged. If result is
 * cudaSuccess, `what` is the whole description. */
void cuda_device_fail(struct cuda_device *device, const char *what, cudaError_t result);
/* For CUDA calls outside tasks. A sticky error may be the fault of another device. All devices are
 * queried, and those that report an error fail, or this device if none does. The caller handles
 * other errors. */
void cuda_note_error(struct cuda_device *device, const char *what, cudaError_t result);

static inline enum engine_device_state cuda_device_state(const struct cuda_device *device)
{
    return atomic_load(&device->base.state);
}

/* ---- cuda_queue.c: on the device's thread ---- */

/* Takes a submitted task. It goes into a queue, or to the finished list. */
void cuda_queue_accept(struct cuda_device *device, struct engine_task *task);
/* Puts the next batch into a free slot and returns the slot. NULL: no task can start now. The batch
 * is empty if the deadlines of its tasks have passed. */
struct cuda_slot *cuda_queue_take(struct cuda_device *device, uint64_t now_ns);
/* Ends queued tasks after their deadline. */
void cuda_queue_expire(struct cuda_device *device, uint64_t now_ns);
/* After the device has left service: fails its tasks. Tasks that run on a failed device end now,
 * and their slots stay busy, because the device may still access their memory. */
void cuda_queue_fail(struct cuda_device *device);

static inline bool cuda_task_is_late(const struct engine_task *task, uint64_t now_ns)
{
    return task->deadline_ns && now_ns > task->deadline_ns;
}

/* ---- thread.c ---- */

bool cuda_thread_start(struct cuda_device *device);
/* Waits until until_ns, and a second more at most. false: the thread hangs in a CUDA call.
 * Idempotent. */
bool cuda_thread_stop(struct cuda_device *device, uint64_t until_ns);
void cuda_submit(struct engine *engine, struct engine_task *task);
