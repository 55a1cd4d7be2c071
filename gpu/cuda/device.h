/*
 * device.h - the parts of the CUDA engine: devices, their streams, queues and clocks.
 *
 * Private to gpu/cuda, but for tests. A task is one job's work on a device (gpu/engine/engine.h). A
 * slot is a CUDA stream with its events. It runs one batch at a time: one task, or several that are
 * enqueued together. The batch occupies the slot until its last copy or kernel has ended. Each
 * device has a thread, which makes all CUDA calls for tasks (thread.c).
 *
 * Locks, in the order in which a thread may take them:
 * - the lock of a pool (gpu/engine/pool.c). A pool calls CUDA to allocate memory, with its lock
 *   held, and the call can show that a device has failed
 * - cuda_engine.lock: guards changes of the devices' states, with `why` and `struck`, and `stuck`
 * - cuda_device.lock: guards the members with which other threads reach the device's thread
 * All other members belong to the device's thread, or do not change while the engine is open.
 */
#pragma once

#include <cuda_runtime.h>

#include "gpu/avif/encode.h"
#include "gpu/engine/engine_impl.h"
#include "gpu/jpeg/decode.h"
#include "gpu/jpeg/encode.h"
#include "gpu/jpeg/progressive.h"
#include "gpu/plan/pass.h"
#include "gpu/png/decode.h"
#include "gpu/png/encode.h"
#include "gpu/webp/encode.h"

/* Default of engine_config.hang_grace_s. A device counts as hung if a task still runs this long
 * after its deadline, and this long after its start. */
#define DEVICE_HANG_GRACE_S 5
/* If the device's thread did not run for this long although it held tasks, the process was
 * suspended. The grace time before the device counts as hung then starts again. */
#define DEVICE_SUSPENDED_NS 1000000000ull
/* Interval at which the thread queries all streams for errors, and checks the deadlines of queued
 * tasks. */
#define DEVICE_POLL_NS 50000000ull
/* Interval at which the streams of PNGs in the state SLOT_LONG are queried. To inflate one takes
 * some tens of milliseconds. */
#define DEVICE_LONG_NS 1000000ull
/* Interval at which the thread looks for progressive JPEGs whose scans have ended. A small image
 * takes 5 ms, a photograph 50 to 400. The look costs less than a microsecond: it reads a word of
 * pinned memory per image. */
#define DEVICE_SCANS_NS 150000ull
/* The same while more than one image per long slot is decoded. The thread then also starts images
 * at this interval, so that their batches are larger: a batch costs it 40 to 110 us. */
#define DEVICE_SCANS_MANY_NS 400000ull
/* The longest time that engine_close waits for the threads, and then for running tasks. */
#define DEVICE_CLOSE_NS 5000000000ull

struct cuda_engine;
struct cuda_device;

static_assert(STREAM_CODEC_BYTES % BUFFER_ALIGN == 0 && LONG_CODEC_BYTES % BUFFER_ALIGN == 0,
              "the end of the room is aligned");
/* The part of LONG_CODEC_BYTES for descriptions; cuda_codec.ended takes the rest. */
#define LONG_ROOM_BYTES (LONG_CODEC_BYTES - BUFFER_ALIGN)
static_assert(SCANS_TASKS_MAX * sizeof(uint32_t) <= BUFFER_ALIGN, "a word for each image");
/* The size of a cache line. */
#define CUDA_PREFETCH_BYTES 64

/* The launches that encode, in the order of the table in cuda_codec.c. */
enum { CUDA_ENCODERS = 5, CUDA_ENCODER_AVIF = 4 };

/* The launch that encodes the images of one format. */
struct cuda_encoder {
    uint8_t *at; /* address of the description on the device; NULL: the batch has no such image */
    union {
        struct jpeg_encode_batch jpeg;
        struct png_encode_batch png;
        struct webp_encode_batch webp;
        struct avif_encode_batch avif;
    } batch;
};

/* The launches of the codecs for one batch. A launch needs a description of all its images on
 * the device: the thread writes it to `host`, and upload.c copies it to `device`. */
struct cuda_codec {
    uint8_t *host, *device; /* pinned memory and device memory, `bytes` each */
    size_t bytes;
    uint8_t *next; /* in `host`: where the next description goes */
    /* Addresses of the descriptions in `device`; NULL: the batch does not need the launch. */
    uint8_t *scans_at, *decoder_at, *png_decoder_at;
    unsigned long_parts; /* parts of a decoder that take long, and are not enqueued yet */
    /* Of a batch of QUEUE_SCANS: the tasks whose scans the device decodes, or NULL if they have
     * ended; the number of those that have not; and the words by which the device reports their
     * ends, in pinned memory (jpeg_progressive_image.ended). */
    struct engine_task *images[SCANS_TASKS_MAX];
    uint32_t image_count, images_left;
    uint32_t *ended;
    struct jpeg_progressive_batch scans;
    struct jpeg_decode_batch decoder;
    struct png_decode_batch png_decoder;
    struct cuda_encoder encoders[CUDA_ENCODERS];
};

/* The kinds of tasks. Each kind waits in a queue of its own, and a batch has tasks of one kind. */
enum cuda_queue {
    QUEUE_ALONE,  /* needs much memory, or wants to run alone: one task per batch */
    QUEUE_SHARED, /* needs at most BATCH_TASK_BYTES, without the codec: several per batch */
    QUEUE_CODEC,  /* decodes JPEGs, or encodes, on the device: several per batch, whose images
                     share the codec's launches */
    /* These take up to a thousand times as long as others, so they have slots of their own (long
     * slots), and no other task waits for them: */
    QUEUE_SCANS, /* Decodes the scans of progressive JPEGs: several per batch. Each task leaves the
                    batch when its own scans have ended, and then waits in QUEUE_CODEC. */
    QUEUE_PNG,   /* decodes a PNG on the device: one task per batch */
    QUEUES
};

enum cuda_slot_state {
    SLOT_FREE,
    SLOT_LONG, /* The upload, and the decoding of scans or of a PNG, are enqueued, and nothing after
                  them: thread.c gives the reason. After scans, the slot is free. After a PNG, the
                  thread enqueues the rest. */
    SLOT_BUSY, /* the whole batch is enqueued, and then a callback that reports its end */
};

struct cuda_slot {
    struct cuda_device *device;
    cudaStream_t stream;
    cudaEvent_t start, copied_in, computed, copied_out;
    cudaEvent_t decoded, passed; /* after the decoder, and after the passes; only if has_codec */
    struct list tasks;           /* The batch. Empty: there is none, or the device has failed and
                                    the tasks were ended. */
    struct list_node ended_node; /* in the device's ended list */
    struct cuda_codec codec;
    enum cuda_slot_state state;
    bool measured;               /* no event failed to be recorded, so the times can be read */
    bool is_light;               /* the batch has at most BATCH_PIXELS_LIGHT pixels */
    bool has_codec;              /* a task of the batch decodes or encodes on the device */
    uint32_t encoders;           /* those that the batch needs: as engine_task.encoders */
    bool has_downloads;          /* false: kernels write all results to the host, and copied_out is
                                    not recorded */
    enum cuda_queue queue;       /* the kind of the tasks of the batch */
    uint64_t started_ns;         /* CLOCK_MONOTONIC when the batch was enqueued */
    uint64_t deadline_ns;        /* the earliest of the tasks; 0: none has one */
    uint64_t upload_bytes;       /* this and the next two: of a batch of QUEUE_SCANS */
    uint64_t upload_ns;          /* how long the upload took; 0: not known */
    uint64_t scans_at_ns;        /* CLOCK_MONOTONIC when the upload had ended; 0: not known */
    int base;                    /* index into cuda_clock.base, from which the times of this batch
                                    are measured; -1: none */
};

/*
 * Converts the times of CUDA events to seconds, and to CLOCK_MONOTONIC.
 *
 * CUDA only gives the time between two events, as a float in milliseconds, which is too coarse
 * after some minutes. Times are therefore measured from a base: an event that the thread records
 * again every few seconds. There are two bases, because batches that were started with the old base
 * may still run after the new one is recorded.
 *
 * The thread reads the host's clock just before it records a base on an idle stream. The device
 * reaches the event a little later, so batches seem to start too early. If one seems to have
 * started before it was enqueued, the base's host time is increased to match. The remaining error
 * is thus at most the shortest time between enqueueing a batch and its start.
 */
struct cuda_clock {
    cudaEvent_t base[2];
    double base_s[2];    /* device time of each base, in seconds after the first base */
    uint64_t host_ns[2]; /* CLOCK_MONOTONIC of each base */
    bool known[2];       /* whether base_s is set: the base's event has been reached */
    unsigned users[2];   /* slots whose times are measured from the base */
    int current;         /* the base for batches that start now */
    uint64_t renewed_ns; /* when the current base was recorded */
};

struct cuda_device {
    struct engine_device base;
    struct cuda_engine *engine;
    int ordinal;          /* CUDA's number of the device */
    atomic_uint reserved; /* jobs that hold memory on this device */
    /* base.slot_count general slots, and after them long_count long slots: none at first,
     * LONG_STREAMS from cuda_device_prepare_codecs on. */
    struct cuda_slot *slots;
    _Atomic uint32_t long_count;

    /* Under the engine's lock: */
    struct error why; /* why the device last left service */
    bool struck;      /* The device left service by a sticky error or a hang. A task that was on it
                         may be the cause. */

    pthread_mutex_t lock; /* guards the members up to `closing` */
    pthread_cond_t wake;
    struct list submitted; /* tasks that the thread has not taken yet */
    bool urgent;           /* the thread must take them now */
    bool patient;          /* the thread takes progressive JPEGs only when it looks for others whose
                              scans have ended */
    uint32_t wanted;       /* the thread need not be woken for fewer small tasks:
                              cuda_queue_wanted */
    struct list ended;     /* slots whose callbacks have reported the end of their batches */
    bool left_service;     /* the device left service, and the thread must fail its tasks */
    bool closing;          /* the thread must return */

    pthread_t thread;
    bool has_thread;
    struct list queues[QUEUES]; /* tasks that wait for a slot, in the order of conf/rank.h */
    struct list finished;       /* tasks whose `done` the thread will call */
    size_t held;                /* tasks taken from `submitted` whose `done` was not called */
    size_t decoding;            /* slots in the state SLOT_LONG */
    uint64_t polled_ns, long_polled_ns; /* when all slots, and those of PNGs, were queried */
    uint64_t scans_polled_ns;           /* when the words of progressive JPEGs were read */
    size_t scanning;                    /* tasks in batches of QUEUE_SCANS */
    bool scans_due;                     /* the words were read in this turn of the thread */
    uint64_t looked_ns;                 /* when the thread last ran */
    uint64_t awake_ns;          /* when the process last resumed after a suspension, or 0 */
    struct cuda_clock clock;
};

/* Pinned memory of a task that was running on a device when the device failed. The device may still
 * write to it, so that it must not be used again. */
struct stuck_block {
    struct list_node node;
    struct pool_block block;
};

struct cuda_engine {
    struct engine base;
    void (*failed)(void *context); /* engine_config.failed, with its context */
    void *context;
    struct cuda_device devices[DEVICES_MAX];
    pthread_mutex_t lock; /* guards changes of the devices' states, and `stuck` */
    struct list stuck;    /* struct stuck_block */
    uint64_t hang_grace_ns;
    atomic_bool has_pageable; /* the pinned pool has taken pageable memory, and has warned of it */
};

static inline struct cuda_engine *cuda_engine(struct engine *engine)
{
    return container_of(engine, struct cuda_engine, base);
}

static inline struct engine_task *cuda_task(struct list_node *node)
{
    return container_of(node, struct engine_task, node);
}

/* Whether the device decodes a progressive JPEG for the task, which is prepared. */
static inline bool cuda_is_progressive(const struct engine_task *task)
{
    return task->queue == QUEUE_SCANS;
}

/* The addresses of the plan's buffers in the task's block of device memory. */
static inline struct pass_buffers cuda_buffers(const struct engine_task *task)
{
    const struct plan *plan = task->plan;
    struct pass_buffers buffers;
    buffers.input = (uint8_t *)task->memory->device_block.memory;
    buffers.output = buffers.input + buffer_align(plan->input_bytes);
    buffers.scratch = buffers.output + buffer_align(plan->output_bytes - plan->written_bytes);
    return buffers;
}

/* Number of open slots, general and long. */
static inline uint32_t cuda_slot_count(const struct cuda_device *device)
{
    return device->base.slot_count + atomic_load(&device->long_count);
}

/* Whether more progressive JPEGs are decoded than a slot each. They then start together, at
 * intervals, so that batches are large and few. */
static inline bool cuda_scans_many(const struct cuda_device *device)
{
    return device->scanning > LONG_STREAMS;
}

/* ---- device.c ---- */

/* Initializes a zeroed device: pool, slots, events, clock. Errors: gpu_failed, out_of_memory. Call
 * cuda_device_close after an error as well. */
enum status cuda_device_open(struct cuda_device *device, struct cuda_engine *engine, int ordinal,
                             const struct engine_config *config, struct error *error) MUST_CHECK;
/* Allocates the memory for the descriptions of the codecs in all slots, and opens the long slots.
 * Call it while no task runs. */
cudaError_t cuda_device_prepare_codecs(struct cuda_device *device);
/* Call it also if cuda_device_open failed. The device must be idle, and its thread must have
 * ended. */
void cuda_device_close(struct cuda_device *device);

/* Pinned memory from cudaHostAlloc; pageable memory if that fails. */
struct pool_backend cuda_pinned_backend(struct cuda_engine *engine);

/* Sets slot->base for a batch that is about to start. The slot's stream must be idle: if the base
 * is due, it is recorded there. */
cudaError_t cuda_clock_start(struct cuda_device *device, struct cuda_slot *slot);
/* Ends the slot's use of its base, so that the base can be renewed. */
void cuda_clock_stop(struct cuda_device *device, struct cuda_slot *slot);
/* The time of an event of the slot, in seconds of device time. false: it is not known. */
bool cuda_clock_time(struct cuda_device *device, const struct cuda_slot *slot, cudaEvent_t event,
                     double *time_s);
/* CLOCK_MONOTONIC of the start of a batch that ran from start_s to end_s in device time. The result
 * is not before the batch was enqueued, and the batch's end is not in the future. */
uint64_t cuda_clock_host_ns(struct cuda_device *device, const struct cuda_slot *slot,
                            double start_s, double end_s);

/* ---- uuids.c ---- */

/* Whether the value of the option `devices` is a list of UUIDs. */
bool cuda_uuids_given(const char *devices);
/* Makes CUDA show only the devices with the listed UUIDs, by setting an environment variable. Call
 * it before the first CUDA call, while no other thread runs. Returns the number of UUIDs; 0: the
 * error is set. */
uint32_t cuda_uuids_select(const char *devices, struct error *error);

/* ---- note.c ---- */

/* Record the result of a CUDA call that was made for one task, or for all tasks of the slot that
 * have no error yet. A sticky error (cuda_is_sticky) is returned, because it ends the whole batch.
 * Any other error becomes the task's error, and cudaSuccess is returned. */
cudaError_t cuda_note_task(const struct cuda_slot *slot, struct engine_task *task,
                           cudaError_t result) MUST_CHECK;
cudaError_t cuda_note_tasks(const struct cuda_slot *slot, cudaError_t result) MUST_CHECK;

/* ---- cuda_batch.c ---- */

/* Any thread. Sets part_bytes of the task, by which it will share the times of its batch. */
void cuda_batch_prepare(struct engine_task *task);
/* Enqueue copies, kernels and events for the slot's tasks. cuda_batch_begin enqueues the uploads
 * and the part of a decoder that takes long, cuda_batch_continue the rest. If a CUDA call
 * for a task fails, the task's error is set, and its other calls are skipped, except those that it
 * shares with other tasks. Return cudaSuccess or a sticky error. */
cudaError_t cuda_batch_begin(struct cuda_slot *slot) MUST_CHECK;
/* Enqueues the next part of a decoder that takes long. */
cudaError_t cuda_batch_long(struct cuda_slot *slot) MUST_CHECK;
cudaError_t cuda_batch_continue(struct cuda_slot *slot) MUST_CHECK;
/* Call it for a batch that has ended. Adds the batch to the device's activity and, if it was
 * measured, sets the times of each task that has no error. */
void cuda_batch_take_times(struct cuda_slot *slot);
/* The same for the scans of a task that have ended just now, and for a batch of QUEUE_SCANS. The
 * task's second batch adds to its times. */
void cuda_batch_take_scans(struct cuda_slot *slot, struct engine_task *task, uint64_t now_ns);
void cuda_batch_end_scans(struct cuda_slot *slot, uint64_t now_ns);

/* ---- upload.c ---- */

/* Enqueues the uploads of the tasks that have no error. Returns cudaSuccess or a sticky error. */
cudaError_t cuda_upload(struct cuda_slot *slot) MUST_CHECK;

/* ---- cuda_codec.c ---- */

/* Allocates `bytes` of pinned memory, and of device memory, for the descriptions of the slot's
 * launches. Call cuda_codec_close after an error as well. */
cudaError_t cuda_codec_open(struct cuda_slot *slot, size_t bytes);
void cuda_codec_close(struct cuda_slot *slot);
/* Writes the descriptions of all launches for the slot's tasks that have no error. cuda_upload then
 * uploads them. */
cudaError_t cuda_codec_describe(struct cuda_slot *slot) MUST_CHECK;
/* Drops the described launches: the functions below then do nothing. */
void cuda_codec_forget(struct cuda_slot *slot);
/* Enqueue the described launches, to be called in this order: the next part of a decoder that takes
 * long, if there is one; decoding to pixels; encoding. A task may have failed after it was
 * described, so that its buffers contain any bytes: the kernels are safe with any bytes. */
cudaError_t cuda_codec_long(struct cuda_slot *slot) MUST_CHECK;
cudaError_t cuda_codec_decode(struct cuda_slot *slot) MUST_CHECK;
cudaError_t cuda_codec_encode(struct cuda_slot *slot) MUST_CHECK;
/* Returns a task of a batch of QUEUE_SCANS whose scans have ended, once per task; or NULL. */
struct engine_task *cuda_codec_take_ended(struct cuda_slot *slot);
/* Whether the scans of all tasks of such a batch have ended. */
bool cuda_codec_all_ended(const struct cuda_slot *slot);
/* Make the processor load what the device's thread will read of a task: the first function its plan
 * and its memory, the second one, for a JPEG, its frame or what was prepared of it. Another thread
 * has written them just now, so that each load takes 100 ns, and a task needs 40. */
void cuda_codec_prefetch_plan(const struct engine_task *task);
void cuda_codec_prefetch_frame(const struct engine_task *task);
/* Whether the device decodes a progressive JPEG for the task. Reads the file's frame. */
bool cuda_codec_is_progressive(const struct engine_task *task);
/* Whether the device encodes an AVIF for the task. */
bool cuda_codec_has_avif(const struct engine_task *task);
/* Any thread. Prepares the task's description. Sets images, encoders, description_bytes,
 * scans_bytes, scans_at, has_own_tables and prepared of the task. */
void cuda_codec_measure(struct engine_task *task);

/* ---- service.c: the states of the devices. Any thread ---- */

/* The only function that changes a device's state. A change from DEVICE_FAILED, and one to the same
 * state, is ignored. why, struck: cuda_device.why and struck; `why` becomes the text of the tasks'
 * errors. */
void cuda_device_move(struct cuda_device *device, enum engine_device_state to, bool struck,
                      const char *why);
/* Moves the device to DEVICE_FAILED. The tasks on it become suspects. what: what the device was
 * doing when `result` was returned; if result is cudaSuccess, the whole description of the
 * failure. */
void cuda_device_fail(struct cuda_device *device, const char *what, cudaError_t result);
/* Handles a sticky error of a CUDA call that was not made for a task, for example an allocation.
 * CUDA may report the error of one device in a call for another. So all devices are queried, and
 * those that report an error fail; if none does, `device` fails. The caller handles errors that are
 * not sticky. */
void cuda_note_error(struct cuda_device *device, const char *what, cudaError_t result);

static inline enum engine_device_state cuda_device_state(const struct cuda_device *device)
{
    return atomic_load(&device->base.state);
}

/* ---- cuda_queue.c: on the device's thread, but for cuda_queue_prepare ---- */

/* Any thread. Sets the queue of a task, and the sizes of its descriptions. Call it before
 * cuda_queue_accept. */
void cuda_queue_prepare(struct engine_task *task);
/* Adds a submitted task to its queue; or to the finished list, if its plan is idle or the device
 * cannot run it. */
void cuda_queue_accept(struct cuda_device *device, struct engine_task *task);
/* Moves the next batch from a queue to a free slot, and returns the slot. NULL: no task can start
 * now. The batch is empty if all its tasks were past their deadlines. */
struct cuda_slot *cuda_queue_fill_slot(struct cuda_device *device, uint64_t now_ns);
/* Whether a prepared task is one of QUEUE_CODEC with at most BATCH_PIXELS_SMALL. Any thread. */
bool cuda_queue_is_small(const struct engine_task *task);
/* How many further such tasks can make a batch start. If fewer are submitted, they must wait until
 * another batch ends. */
uint32_t cuda_queue_wanted(const struct cuda_device *device);
/* Puts a task whose scans have ended into QUEUE_CODEC; or into the finished list, if it has failed
 * or is past its deadline. The caller has removed it from its slot. */
void cuda_queue_after_scans(struct cuda_device *device, struct engine_task *task, uint64_t now_ns);
/* Ends the queued tasks that are past their deadlines. */
void cuda_queue_expire(struct cuda_device *device, uint64_t now_ns);
/* Fails the tasks of a device that has left service, queued and running. If the device has failed,
 * its running tasks end now, but their slots stay busy and their memory is not used again, because
 * the device may still write to it. */
void cuda_queue_fail(struct cuda_device *device);

static inline bool cuda_task_is_late(const struct engine_task *task, uint64_t now_ns)
{
    return task->deadline_ns && now_ns > task->deadline_ns;
}

/* ---- thread.c ---- */

/* Starts the device's thread. false: the system cannot start it. */
bool cuda_thread_start(struct cuda_device *device);
/* Ends the thread, and waits for that until until_ns (CLOCK_MONOTONIC), or at most a second longer.
 * false: the thread hangs in a CUDA call. Idempotent. */
bool cuda_thread_stop(struct cuda_device *device, uint64_t until_ns);
/* The CPU time that the thread has used. Not while cuda_thread_stop runs. */
uint64_t cuda_thread_cpu_ns(const struct cuda_device *device);
/* engine_table.submit */
void cuda_submit(struct engine *engine, struct engine_task *task);
