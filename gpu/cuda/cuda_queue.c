/*
 * cuda_queue.c - keeps the tasks that wait for a device, and chooses which of them run together.
 *
 * A device has slots (a slot is a CUDA stream, which runs one batch of tasks at a time) and five
 * queues of waiting tasks (enum cuda_queue in device.h). A batch takes tasks from the front of one
 * queue. A batch that is not light takes only its share of the queue if several slots are free, so
 * that a few large images run in parallel on several streams. If BATCHES_LIGHT batches of few
 * pixels (light: conf/limits.h) run already on general slots, tasks of the JPEG codec wait, and so
 * form larger batches.
 *
 * The scans of progressive JPEGs run on the long slots. A few files have a slot each. If there are
 * many, a launch serves as many of them as it can.
 */
#include "gpu/cuda/device.h"

#include "gpu/cuda/try.h"

/* The device's thread will call the task's `done`. */
static void finish(struct cuda_device *device, struct engine_task *task)
{
    list_push(&device->finished, &task->node);
}

/* ---- failing -------------------------------------------------------------------------------- */

/* Whether the device's state forbids it to run the task. A device that is out of service runs only
 * the tasks with which the daemon checks it. */
static bool is_refused(const struct cuda_device *device, const struct engine_task *task)
{
    enum engine_device_state state = cuda_device_state(device);
    return state == DEVICE_FAILED || (state == DEVICE_OUT && !task->is_check);
}

/* Sets the error of a task of a device that has left service. ran: the task was in a slot, so it is
 * a suspect if a task may be the cause. Other tasks are marked `returned`: the job runs again, and
 * this attempt does not count. */
static void set_failed(struct cuda_device *device, struct engine_task *task, bool ran)
{
    struct cuda_engine *cuda = device->engine;
    pthread_mutex_lock(&cuda->lock);
    task->suspect = ran && device->struck;
    task->returned = !task->suspect;
    task->error = device->why;
    pthread_mutex_unlock(&cuda->lock);
}

static void fail_waiting(struct cuda_device *device, struct list *waiting)
{
    list_each_safe(node, after, waiting)
    {
        struct engine_task *task = cuda_task(node);
        if (task->is_check && cuda_device_state(device) != DEVICE_FAILED)
            continue;
        list_remove(waiting, node);
        set_failed(device, task, false);
        finish(device, task);
    }
}

/* If the device has failed, its streams may never end: the tasks end now. If it is only out of
 * service, the tasks get their error now, and end when the stream ends. */
static void fail_running(struct cuda_device *device, struct cuda_slot *slot)
{
    bool failed = cuda_device_state(device) == DEVICE_FAILED;
    list_each_safe(node, after, &slot->tasks)
    {
        struct engine_task *task = cuda_task(node);
        if (failed || !task->is_check)
            set_failed(device, task, true);
        if (!failed)
            continue;
        task->memory->stuck = true;
        list_remove(&slot->tasks, node);
        finish(device, task);
    }
}

void cuda_queue_fail(struct cuda_device *device)
{
    for (uint32_t s = 0; s < cuda_slot_count(device); s++)
        fail_running(device, &device->slots[s]);
    for (enum cuda_queue queue = 0; queue < QUEUES; queue++)
        fail_waiting(device, &device->queues[queue]);
}

/* ---- accepting ------------------------------------------------------------------------------ */

/* Whether the device decodes or encodes for the plan. Only then kernels write to the output
 * buffer in host memory: encoded files, and struct plan_report. */
static bool uses_codec(const struct plan *plan)
{
    return plan->written_bytes > 0;
}

/* Whether the device cannot write to the task's output buffer, because it is pageable memory, which
 * the pinned pool takes if the system has no pinned memory. */
static bool is_unreachable(const struct cuda_engine *cuda, const struct engine_task *task)
{
    struct cudaPointerAttributes attributes;
    if (!atomic_load(&cuda->has_pageable))
        return false;
    if (cudaPointerGetAttributes(&attributes, task->memory->output) == cudaSuccess &&
        attributes.type == cudaMemoryTypeHost)
        return false;
    (void)cudaGetLastError();
    return true;
}

static enum cuda_queue queue_of(const struct engine_task *task)
{
    const struct plan *plan = task->plan;
    if (plan->source.file.codec == DEVICE_CODEC_PNG)
        return QUEUE_PNG;
    if (cuda_codec_is_progressive(task))
        return QUEUE_SCANS;
    if (task->alone || (!uses_codec(plan) && plan->device_bytes > BATCH_TASK_BYTES))
        return QUEUE_ALONE;
    return uses_codec(plan) ? QUEUE_CODEC : QUEUE_SHARED;
}

void cuda_queue_prepare(struct engine_task *task)
{
    task->queue = queue_of(task);
    task->pixels = (uint64_t)task->plan->source.width * task->plan->source.height;
    task->description_bytes = task->scans_bytes = task->scans_at = 0;
    task->images = task->encoders = 0;
    if (uses_codec(task->plan))
        cuda_codec_measure(task);
    cuda_batch_prepare(task);
}

/* Whether the device's codec cannot run the task. */
static bool is_declined(const struct cuda_engine *cuda, const struct engine_task *task)
{
    size_t room = task->queue == QUEUE_PNG ? LONG_ROOM_BYTES : STREAM_CODEC_BYTES;
    return uses_codec(task->plan) &&
           (task->description_bytes > room || task->scans_bytes > LONG_ROOM_BYTES ||
            is_unreachable(cuda, task));
}

/* Tells the caller, in the task's output, that the codec of the host must run the job. */
static void report_declined(struct engine_task *task)
{
    uint8_t *report = task->memory->output + task->plan->report_at;
    ((struct plan_report *)report)->declined = UINT32_MAX;
}

static void enqueue(struct cuda_device *device, struct engine_task *task, enum cuda_queue queue)
{
    rank_push(&device->queues[queue], &task->node, RANK_OFFSET(struct engine_task, node, rank));
}

void cuda_queue_accept(struct cuda_device *device, struct engine_task *task)
{
    device->held++;
    if (is_refused(device, task)) {
        set_failed(device, task, false);
        finish(device, task);
    } else if (task->plan->idle) {
        finish(device, task);
    } else if (is_declined(device->engine, task)) {
        report_declined(task);
        finish(device, task);
    } else {
        enqueue(device, task, task->queue);
    }
}

/* ---- deadlines ------------------------------------------------------------------------------ */

/* The caller has removed the task from its queue. */
static void expire(struct cuda_device *device, struct engine_task *task)
{
    error_set(&task->error, STATUS_TIMEOUT, "the deadline passed while the job waited for %s",
              device->base.name);
    finish(device, task);
}

void cuda_queue_expire(struct cuda_device *device, uint64_t now_ns)
{
    for (enum cuda_queue queue = 0; queue < QUEUES; queue++) {
        list_each_safe(node, after, &device->queues[queue])
        {
            if (!cuda_task_is_late(cuda_task(node), now_ns))
                continue;
            list_remove(&device->queues[queue], node);
            expire(device, cuda_task(node));
        }
    }
}

void cuda_queue_after_scans(struct cuda_device *device, struct engine_task *task, uint64_t now_ns)
{
    task->submitted_ns = now_ns; /* it waits again, and not longer than others */
    if (task->error.status != STATUS_OK)
        finish(device, task);
    else if (cuda_task_is_late(task, now_ns))
        expire(device, task);
    else
        enqueue(device, task, QUEUE_CODEC);
}

/* ---- choosing a batch ----------------------------------------------------------------------- */

/* The slots that run the queue's tasks, from `first` to before `end`. */
struct slot_range {
    uint32_t first, end;
};

static struct slot_range slots_of(const struct cuda_device *device, enum cuda_queue queue)
{
    uint32_t general = device->base.slot_count;
    if (queue == QUEUE_SCANS || queue == QUEUE_PNG)
        return (struct slot_range){general, cuda_slot_count(device)};
    return (struct slot_range){0, general};
}

/* Counts the free slots that may run the queue's tasks. *first: the first of them, or NULL. */
static size_t free_slots(const struct cuda_device *device, enum cuda_queue queue,
                         struct cuda_slot **first)
{
    struct slot_range range = slots_of(device, queue);
    struct cuda_slot *slots = device->slots;
    size_t free = 0;
    *first = NULL;
    for (uint32_t s = range.first; s < range.end; s++) {
        if (slots[s].state != SLOT_FREE)
            continue;
        free++;
        *first = *first ? *first : &slots[s];
    }
    return free;
}

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* How many of the queue's tasks a free slot may take: the queue divided by the free slots, so that
 * all of them get some. But many progressive JPEGs take few slots, and all of their scans run at
 * the same time nevertheless. */
static size_t share_of(const struct cuda_device *device, enum cuda_queue queue, size_t free)
{
    return queue == QUEUE_SCANS && cuda_scans_many(device)
               ? SCANS_TASKS_MAX
               : divide_up(device->queues[queue].length, free);
}

bool cuda_queue_is_small(const struct engine_task *task)
{
    return task->queue == QUEUE_CODEC && task->pixels <= BATCH_PIXELS_SMALL;
}

/* The number of light batches that run on general slots. */
static uint32_t light_batches(const struct cuda_device *device)
{
    uint32_t running = 0;
    for (uint32_t s = 0; s < device->base.slot_count; s++)
        running += device->slots[s].state != SLOT_FREE && device->slots[s].is_light;
    return running;
}

/* How many small tasks are enough for a batch, while `running` light batches run: half of the tasks
 * that the device has beyond the first 2 * BATCH_TASKS_HEAVY. So a burst runs in several small
 * batches. Under load, batches are large, and one runs while the results of another are taken: a
 * third made shards of small JPEGs slower by a sixth on an H200, because the thread then had more
 * batches to start. */
static uint32_t smalls_wanted(const struct cuda_device *device, uint32_t running)
{
    size_t first = 2 * BATCH_TASKS_HEAVY;
    size_t part = device->held > first ? (device->held - first) / 2 : 0;
    if (running < BATCHES_LIGHT)
        return 1;
    return part < BATCH_TASKS_HEAVY ? BATCH_TASKS_HEAVY
           : part > BATCH_TASKS_MAX ? BATCH_TASKS_MAX
                                    : (uint32_t)part;
}

static bool are_small(const struct list *waiting)
{
    list_each(node, waiting)
        if (!cuda_queue_is_small(cuda_task(node)))
            return false;
    return true;
}

/* Whether so few tasks of QUEUE_CODEC are queued that they must wait for others. */
static bool are_few(const struct cuda_device *device, uint32_t running)
{
    const struct list *waiting = &device->queues[QUEUE_CODEC];
    uint64_t pixels = 0;
    if (are_small(waiting))
        return waiting->length < smalls_wanted(device, running);
    list_each(node, waiting)
        pixels += cuda_task(node)->pixels;
    return pixels < BATCH_PIXELS_WAIT;
}

/* Whether enough light batches run for the next task of QUEUE_CODEC, which is a tiny image. */
static bool has_enough(const struct cuda_device *device, uint32_t running)
{
    struct list_node *first = list_first(&device->queues[QUEUE_CODEC]);
    return running >= BATCHES_TINY && first && cuda_task(first)->pixels <= BATCH_PIXELS_TINY;
}

/* Whether the tasks of the queue must wait, to form a larger batch. Those of QUEUE_CODEC wait while
 * BATCHES_LIGHT light batches run on general slots, and few are queued, or BATCHES_TINY. Those of
 * QUEUE_SCANS wait for at most DEVICE_SCANS_MANY_NS, while many others are decoded. The other
 * queues never wait. */
static bool must_wait(const struct cuda_device *device, enum cuda_queue queue)
{
    const struct list *waiting = &device->queues[queue];
    if (queue == QUEUE_SCANS)
        return cuda_scans_many(device) && !device->scans_due && waiting->length < SCANS_TASKS_MAX;
    uint32_t running = light_batches(device);
    return queue == QUEUE_CODEC && running >= BATCHES_LIGHT &&
           (has_enough(device, running) ||
            (waiting->length < BATCH_TASKS_MAX && are_few(device, running)));
}

uint32_t cuda_queue_wanted(const struct cuda_device *device)
{
    const struct list *waiting = &device->queues[QUEUE_CODEC];
    uint32_t running = light_batches(device), wanted = smalls_wanted(device, running);
    /* A device that has failed has slots that stay busy, but no batch that ends. */
    bool ends = device->held > 0 && cuda_device_state(device) != DEVICE_FAILED;
    if (!ends || cuda_scans_many(device))
        return 1;
    if (has_enough(device, running))
        return BATCH_TASKS_MAX;
    if (waiting->length >= wanted || !are_small(waiting))
        return 1;
    return wanted - (uint32_t)waiting->length;
}

/* Of the queues that can start a batch now, the one whose first task has waited longest; QUEUES:
 * there is none. */
static enum cuda_queue next_queue(const struct cuda_device *device)
{
    enum cuda_queue next = QUEUES;
    uint64_t since_ns = UINT64_MAX;
    for (enum cuda_queue queue = 0; queue < QUEUES; queue++) {
        struct list_node *first = list_first(&device->queues[queue]);
        struct cuda_slot *slot;
        if (!first || cuda_task(first)->submitted_ns >= since_ns ||
            free_slots(device, queue, &slot) == 0 || must_wait(device, queue))
            continue;
        next = queue;
        since_ns = cuda_task(first)->submitted_ns;
    }
    return next;
}

struct batch_size {
    size_t tasks, images, description_bytes, scans_bytes;
    uint64_t pixels;
    bool alone;     /* a task must be alone */
    bool has_large; /* not all images are small */
    size_t avifs;   /* tasks with an output that is an AVIF */
};

static struct batch_size with_task(struct batch_size size, const struct engine_task *task)
{
    size.tasks++;
    size.images += task->images;
    size.description_bytes += task->description_bytes;
    size.scans_bytes += task->scans_bytes;
    size.pixels += task->pixels;
    size.alone |= task->alone;
    size.has_large |= !cuda_queue_is_small(task);
    size.avifs += cuda_codec_has_avif(task);
    return size;
}

/* The most pixels of a batch that may have more than BATCH_TASKS_HEAVY tasks. While many scans are
 * decoded, images end more often than the thread can start small batches for them. */
static uint64_t light_pixels(const struct cuda_device *device, const struct batch_size *size)
{
    if (cuda_scans_many(device))
        return BATCH_PIXELS_SCANS;
    return !size->has_large && light_batches(device) >= BATCHES_LIGHT ? BATCH_PIXELS_SMALLS
                                                                      : BATCH_PIXELS_LIGHT;
}

/* Whether a batch of the queue may have this size. share: of share_of. */
static bool is_allowed(const struct cuda_device *device, enum cuda_queue queue,
                       struct batch_size size, size_t share)
{
    if (size.tasks == 1)
        return true;
    if (size.alone)
        return false;
    if (queue == QUEUE_SCANS)
        return size.tasks <= share && size.tasks <= SCANS_TASKS_MAX &&
               size.scans_bytes <= LONG_ROOM_BYTES;
    size_t times = size.avifs == size.tasks ? BATCH_AVIF_TIMES : 1;
    if (queue == QUEUE_ALONE || queue == QUEUE_PNG || size.images > BATCH_IMAGES_MAX ||
        size.description_bytes > STREAM_CODEC_BYTES || size.pixels > times * BATCH_PIXELS_MAX)
        return false;
    return size.pixels <= light_pixels(device, &size)
               ? size.tasks <= BATCH_TASKS_MAX
               : size.tasks <= times * BATCH_TASKS_HEAVY && size.tasks <= share;
}

struct cuda_slot *cuda_queue_fill_slot(struct cuda_device *device, uint64_t now_ns)
{
    enum cuda_queue queue = next_queue(device);
    if (queue == QUEUES)
        return NULL;
    struct list *waiting = &device->queues[queue];
    struct cuda_slot *slot;
    size_t share = share_of(device, queue, free_slots(device, queue, &slot));
    struct batch_size size = {0};
    struct list_node *node;
    while ((node = list_first(waiting))) {
        struct engine_task *task = cuda_task(node);
        struct batch_size larger = with_task(size, task);
        bool late = cuda_task_is_late(task, now_ns);
        if (!late && !is_allowed(device, queue, larger, share))
            break;
        list_remove(waiting, node);
        if (late) {
            expire(device, task);
            continue;
        }
        list_push(&slot->tasks, node);
        size = larger;
    }
    slot->queue = queue;
    slot->is_light = size.avifs == 0 &&
                     size.pixels <= (size.has_large ? BATCH_PIXELS_LIGHT : BATCH_PIXELS_SMALLS);
    return slot;
}
