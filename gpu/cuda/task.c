/*
 * task.c - runs tasks on the streams of a device: each is queued, on a stream, ended, finished.
 *
 * When a stream has run the tasks of its slot, a host callback appends the slot to the ended list.
 * engine_reap then moves the tasks to the finished list and calls their `done`. A task that fails
 * also reaches the finished list.
 */
#include "gpu/cuda/device.h"

#include <assert.h>

#include "conf/clock.h"
#include "gpu/cuda/try.h"

/* ---- device faults ---- */

static void fail_task(struct cuda_engine *cuda, struct engine_task *task, bool on_device)
{
    task->on_device = on_device;
    error_set(&task->error, STATUS_GPU_FAILED, "%s", cuda->base.fault.text);
    list_push(&cuda->finished, &task->node);
}

static void fail_tasks(struct cuda_engine *cuda, struct list *tasks, bool on_device)
{
    struct list_node *node;
    while ((node = list_pop(tasks)))
        fail_task(cuda, cuda_task(node), on_device);
}

/* Stops the engine: records the fault and fails all tasks. Slots with failed tasks stay busy,
 * because the device may still access their memory. */
void cuda_latch_fault(struct cuda_engine *cuda, const struct cuda_device *struck,
                      const char *what, cudaError_t result)
{
    if (cuda->base.fault.status)
        return;
    if (!struck)
        error_set(&cuda->base.fault, STATUS_GPU_FAILED, "%s", what);
    else if (result == cudaSuccess)
        error_set(&cuda->base.fault, STATUS_GPU_FAILED, "%s: %s", struck->base.name, what);
    else
        error_set(&cuda->base.fault, STATUS_GPU_FAILED, "%s: %s: %s (%s)", struck->base.name, what,
                  cudaGetErrorString(result), cudaGetErrorName(result));
    log_error("%s", cuda->base.fault.text);
    for (uint32_t d = 0; d < cuda->base.device_count; d++) {
        struct cuda_device *device = &cuda->devices[d];
        for (uint32_t s = 0; s < device->base.slot_count; s++)
            fail_tasks(cuda, &device->slots[s].tasks, device == struck);
        fail_tasks(cuda, &device->waiting, false);
        fail_tasks(cuda, &device->small, false);
    }
    if (cuda->wake)
        cuda->wake(cuda->wake_context);
}

/* ---- starting ---- */

/* Runs on a driver thread, in which CUDA calls are not allowed. */
static void CUDART_CB stream_ended(void *argument)
{
    struct cuda_slot *slot = argument;
    struct cuda_engine *cuda = slot->device->engine;
    pthread_mutex_lock(&cuda->lock);
    list_push(&cuda->ended, &slot->ended_node);
    pthread_mutex_unlock(&cuda->lock);
    if (cuda->wake)
        cuda->wake(cuda->wake_context);
}

/* Enqueues the slot's tasks on its stream. If a call fails, the stream may already hold some of the
 * tasks, so the slot stays busy. */
static void slot_start(struct cuda_slot *slot)
{
    struct cuda_device *device = slot->device;
    slot->base = -1;
    slot->busy = true;
    slot->started_ns = clock_now_ns();
    slot->deadline_ns = 0;
    list_each(node, &slot->tasks)
    {
        struct engine_task *task = cuda_task(node);
        task->slot = (uint32_t)(slot - device->slots);
        if (task->deadline_ns && (!slot->deadline_ns || task->deadline_ns < slot->deadline_ns))
            slot->deadline_ns = task->deadline_ns;
    }
    cudaError_t result = cuda_batch_enqueue(slot);
    if (result != cudaSuccess) {
        cuda_latch_fault(device->engine, device, "starting a job", result);
        return;
    }
    result = CUDA_TRY(cudaLaunchHostFunc(slot->stream, stream_ended, slot));
    if (result != cudaSuccess)
        cuda_latch_fault(device->engine, device, "adding a callback to a stream", result);
}

/* ---- queueing ---- */

/* Ends a queued task after its deadline. The caller has removed it from its list. */
static void expire(struct cuda_device *device, struct engine_task *task)
{
    error_set(&task->error, STATUS_TIMEOUT, "the deadline passed while the job waited for %s",
              device->base.name);
    list_push(&device->engine->finished, &task->node);
}

static bool expired(const struct engine_task *task, uint64_t now_ns)
{
    return task->deadline_ns && now_ns > task->deadline_ns;
}

static void expire_waiting(struct cuda_device *device, struct list *waiting, uint64_t now_ns)
{
    list_each_safe(node, after, waiting)
    {
        if (!expired(cuda_task(node), now_ns))
            continue;
        list_remove(waiting, node);
        expire(device, cuda_task(node));
    }
}

static struct cuda_slot *free_slot(struct cuda_device *device)
{
    for (uint32_t s = 0; s < device->base.slot_count; s++)
        if (!device->slots[s].busy)
            return &device->slots[s];
    return NULL;
}

/* The list whose first task has waited longest; NULL: both are empty. */
static struct list *next_list(struct cuda_device *device)
{
    struct list_node *waiting = list_first(&device->waiting), *small = list_first(&device->small);
    if (!waiting || (small && cuda_task(small)->submitted_ns < cuda_task(waiting)->submitted_ns))
        return small ? &device->small : NULL;
    return &device->waiting;
}

static void start_waiting(struct cuda_device *device, uint64_t now_ns)
{
    struct cuda_slot *slot;
    struct list *list;
    while (!device->engine->base.fault.status && (list = next_list(device)) &&
           (slot = free_slot(device))) {
        size_t most = list == &device->small ? BATCH_TASKS_MAX : 1;
        while (slot->tasks.length < most && !list_empty(list)) {
            struct engine_task *task = cuda_task(list_pop(list));
            if (expired(task, now_ns))
                expire(device, task);
            else
                list_push(&slot->tasks, &task->node);
        }
        if (!list_empty(&slot->tasks))
            slot_start(slot);
    }
}

static bool is_small(const struct engine_task *task)
{
    return !task->alone && task->plan->device_bytes <= BATCH_TASK_BYTES;
}

/* Whether the codec's kernels would write to memory of the host that the device cannot reach:
 * pageable memory, which the pool takes if there is no pinned memory. The task then declines. */
static bool decline_unreachable(const struct cuda_engine *cuda, const struct engine_task *task)
{
    const struct plan *plan = task->plan;
    struct cudaPointerAttributes attributes;
    if (plan->written_bytes == 0 || !cuda->pageable_said)
        return false;
    if (cudaPointerGetAttributes(&attributes, task->memory->output) == cudaSuccess &&
        attributes.type == cudaMemoryTypeHost)
        return false;
    (void)cudaGetLastError();
    ((struct plan_report *)(task->memory->output + plan->report_at))->declined = UINT32_MAX;
    return true;
}

void cuda_submit(struct engine *engine, struct engine_task *task)
{
    struct cuda_engine *cuda = cuda_engine(engine);
    struct cuda_device *device = &cuda->devices[task->memory->device];
    task->error.status = STATUS_OK;
    task->on_device = false;
    task->h2d_ms = task->kernel_ms = task->d2h_ms = 0;
    task->decode_ms = task->encode_ms = 0;
    task->started_ns = task->decode_at_ns = task->kernel_at_ns = 0;
    task->encode_at_ns = task->d2h_at_ns = 0;
    task->submitted_ns = clock_now_ns();
    bool unreachable = decline_unreachable(cuda, task);
    if (!cuda->base.fault.status && !task->plan->idle && !unreachable) {
        list_push(is_small(task) ? &device->small : &device->waiting, &task->node);
        return;
    }
    if (cuda->base.fault.status)
        fail_task(cuda, task, false);
    else
        list_push(&cuda->finished, &task->node);
    if (cuda->wake)
        cuda->wake(cuda->wake_context);
}

void cuda_start(struct engine *engine)
{
    struct cuda_engine *cuda = cuda_engine(engine);
    for (uint32_t d = 0; d < cuda->base.device_count; d++)
        if (!list_empty(&cuda->devices[d].waiting) || !list_empty(&cuda->devices[d].small))
            start_waiting(&cuda->devices[d], clock_now_ns());
    if (!list_empty(&cuda->finished) && cuda->wake)
        cuda->wake(cuda->wake_context);
}

/* ---- ending ---- */

static void slot_end(struct cuda_slot *slot, uint64_t now_ns)
{
    struct cuda_device *device = slot->device;
    struct cuda_engine *cuda = device->engine;
    if (list_empty(&slot->tasks))
        return; /* the tasks ended when the device failed; the slot stays busy */
    cudaError_t result = cuda_query(slot->stream);
    if (result != cudaSuccess && result != cudaErrorNotReady) {
        cuda_latch_fault(cuda, device, "at the end of a job", result);
        return;
    }
    if (slot->measured)
        cuda_batch_take_times(slot);
    cuda_clock_stop(device, slot);
    slot->busy = false;
    device->base.counted.turns++;
    device->base.counted.tasks += slot->tasks.length;
    struct list_node *node;
    while ((node = list_pop(&slot->tasks))) {
        struct engine_task *task = cuda_task(node);
        if (expired(task, now_ns))
            error_set(&task->error, STATUS_TIMEOUT, "the deadline passed while the job was on %s",
                      device->base.name);
        list_push(&cuda->finished, node);
    }
}

/* Whether the slot hangs. A batch is treated as one task with the earliest of its deadlines,
 * because it takes no longer than one large task. */
static bool is_overdue(const struct cuda_slot *slot, uint64_t now_ns)
{
    const struct cuda_engine *cuda = slot->device->engine;
    return slot->deadline_ns && now_ns > slot->deadline_ns + cuda->hang_grace_ns &&
           now_ns > slot->started_ns + cuda->hang_grace_ns &&
           now_ns > cuda->awake_ns + cuda->hang_grace_ns;
}

/* Whether the callback has run since engine_reap last read the ended list. */
static bool has_reported(const struct cuda_slot *slot)
{
    struct cuda_engine *cuda = slot->device->engine;
    pthread_mutex_lock(&cuda->lock);
    bool reported = slot->ended_node.next != NULL;
    pthread_mutex_unlock(&cuda->lock);
    return reported;
}

/* Ends queued tasks after their deadline, and detects failed or hung devices. */
static void poll_device(struct cuda_device *device, uint64_t now_ns)
{
    struct cuda_engine *cuda = device->engine;
    expire_waiting(device, &device->waiting, now_ns);
    expire_waiting(device, &device->small, now_ns);
    for (uint32_t s = 0; s < device->base.slot_count && !cuda->base.fault.status; s++) {
        const struct cuda_slot *slot = &device->slots[s];
        if (list_empty(&slot->tasks))
            continue;
        cudaError_t result = cuda_query(slot->stream);
        if (result != cudaSuccess && result != cudaErrorNotReady)
            cuda_latch_fault(cuda, device, "while jobs were on it", result);
        else if (!is_overdue(slot, now_ns) || has_reported(slot))
            continue;
        else if (result == cudaErrorNotReady)
            cuda_latch_fault(cuda, device, "a job hangs: its deadline is long past", cudaSuccess);
        else
            cuda_latch_fault(cuda, device,
                             "a stream has ended its job, but its callback did not run",
                             cudaSuccess);
    }
}

static void poll_devices(struct cuda_engine *cuda, uint64_t now_ns)
{
    cuda->polled_ns = now_ns;
    for (uint32_t d = 0; d < cuda->base.device_count; d++)
        poll_device(&cuda->devices[d], now_ns);
}

void cuda_note_error(struct cuda_device *device, const char *what, cudaError_t result)
{
    struct cuda_engine *cuda = device->engine;
    if (!cuda_is_sticky(result))
        return;
    poll_devices(cuda, clock_now_ns());
    cuda_latch_fault(cuda, device, what, result);
}

void cuda_reap(struct engine *engine)
{
    struct cuda_engine *cuda = cuda_engine(engine);
    uint64_t now_ns = clock_now_ns();
    if (now_ns > cuda->polled_ns + DEVICE_SLEPT_NS)
        cuda->awake_ns = now_ns;
    for (;;) {
        pthread_mutex_lock(&cuda->lock);
        struct list_node *node = list_pop(&cuda->ended);
        pthread_mutex_unlock(&cuda->lock);
        if (!node)
            break;
        struct cuda_slot *slot = container_of(node, struct cuda_slot, ended_node);
        slot_end(slot, now_ns);
        start_waiting(slot->device, now_ns);
    }
    if (now_ns - cuda->polled_ns >= DEVICE_POLL_NS)
        poll_devices(cuda, now_ns);
    /* A `done` may submit a task that ends at once. The next call handles that one: its submission
     * has called wake. */
    for (size_t left = cuda->finished.length; left > 0; left--) {
        struct list_node *node = list_pop(&cuda->finished);
        struct engine_task *task = cuda_task(node);
        task->done(task);
    }
}
