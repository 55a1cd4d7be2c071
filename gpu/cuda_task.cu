/*
 * cuda_task.cu - the way of a task: waiting, on a stream, ended, answered.
 *
 * A task waits in its device's list, is enqueued on a free slot (copy in, passes, copy out, an
 * event between each, a host callback behind them) and, when the callback has put the slot on the
 * ended list, joins the finished ones, whose done engine_reap calls. Whatever happens to a task,
 * it ends on that one list.
 */
#include "gpu/cuda_device.h"

#include <assert.h>

#include "gpu/cuda_try.h"
#include "gpu/pass.h"

static struct cuda_engine *cuda_engine(struct engine *engine)
{
    return container_of(engine, struct cuda_engine, base);
}

/* ---- a device that fails ---- */

static void fail_task(struct cuda_engine *cuda, struct engine_task *task, bool on_device)
{
    task->on_device = on_device;
    error_set(&task->error, STATUS_GPU_FAILED, "%s", cuda->base.fault.text);
    list_push(&cuda->finished, &task->node);
}

/* The slots of the tasks stay busy, since nobody knows what the device still does with their
 * memory. */
void cuda_latch_fault(struct cuda_engine *cuda, const struct cuda_device *struck,
                      const char *what, cudaError_t result)
{
    if (cuda->base.fault.status)
        return;
    if (!struck)
        error_set(&cuda->base.fault, STATUS_GPU_FAILED, "%s", what);
    else if (result == cudaSuccess)
        error_set(&cuda->base.fault, STATUS_GPU_FAILED, "%s: %s", struck->name, what);
    else
        error_set(&cuda->base.fault, STATUS_GPU_FAILED, "%s: %s: %s (%s)", struck->name, what,
                  cudaGetErrorString(result), cudaGetErrorName(result));
    log_error("%s", cuda->base.fault.text);
    for (uint32_t d = 0; d < cuda->device_count; d++) {
        struct cuda_device *device = &cuda->devices[d];
        for (uint32_t s = 0; s < device->slot_count; s++) {
            if (!device->slots[s].task)
                continue;
            fail_task(cuda, device->slots[s].task, device == struck);
            device->slots[s].task = NULL;
        }
        struct list_node *node;
        while ((node = list_pop(&device->waiting)))
            fail_task(cuda, container_of(node, struct engine_task, node), false);
    }
    if (cuda->wake)
        cuda->wake(cuda->wake_context);
}

/* ---- onto a stream ---- */

/* On a thread of the driver: no CUDA call is allowed here. */
static void CUDART_CB stream_ended(void *argument)
{
    struct cuda_slot *slot = (struct cuda_slot *)argument;
    struct cuda_engine *cuda = slot->device->engine;
    pthread_mutex_lock(&cuda->lock);
    list_push(&cuda->ended, &slot->ended_node);
    pthread_mutex_unlock(&cuda->lock);
    if (cuda->wake)
        cuda->wake(cuda->wake_context);
}

static cudaError_t enqueue_passes(const struct plan *plan, const struct pass_buffers *buffers,
                                  cudaStream_t stream)
{
    for (uint32_t v = 0; v < plan->variant_count; v++) {
        for (uint32_t p = 0; p < plan->variants[v].pass_count; p++) {
            const struct pass *planned = &plan->variants[v].passes[p];
            struct pass bound;
            if (planned->deferred)
                continue;
            const struct pass *pass = pass_bind(planned, plan, buffers, &bound);
            struct image from = pass_from(pass, buffers);
            struct image to = pass_to(pass, buffers);
            uint8_t *work = pass_address(buffers, pass->work_place);
            cudaError_t result = (cudaError_t)pass->type->cuda(pass, &from, &to, work, stream);
            if (result != cudaSuccess)
                return cuda_try(result, pass->type->name);
        }
    }
    return cudaSuccess;
}

static cudaError_t enqueue(struct cuda_slot *slot, const struct engine_task *task)
{
    const struct plan *plan = task->plan;
    const struct engine_memory *memory = task->memory;
    uint8_t *base = (uint8_t *)memory->device_block.memory;
    struct pass_buffers buffers;
    buffers.input = base;
    buffers.output = buffers.input + pool_align(plan->input_bytes);
    buffers.scratch = buffers.output + pool_align(plan->output_bytes);

    plan_put_constants(plan, memory->input);
    cudaError_t result = CUDA_TRY(cudaSetDevice(slot->device->ordinal));
    if (result == cudaSuccess)
        result = cuda_clock_start(slot->device, slot);
    if (result == cudaSuccess)
        result = CUDA_TRY(cudaEventRecord(slot->start, slot->stream));
    if (result == cudaSuccess)
        result = CUDA_TRY(cudaMemcpyAsync(buffers.input, memory->input, plan->input_bytes,
                                          cudaMemcpyHostToDevice, slot->stream));
    if (result == cudaSuccess)
        result = CUDA_TRY(cudaEventRecord(slot->copied_in, slot->stream));
    if (result == cudaSuccess)
        result = enqueue_passes(plan, &buffers, slot->stream);
    if (result == cudaSuccess)
        result = CUDA_TRY(cudaEventRecord(slot->computed, slot->stream));
    /* All results of the job lie side by side: one copy. */
    if (result == cudaSuccess)
        result = CUDA_TRY(cudaMemcpyAsync(memory->output, buffers.output, plan->output_bytes,
                                          cudaMemcpyDeviceToHost, slot->stream));
    if (result == cudaSuccess)
        result = CUDA_TRY(cudaEventRecord(slot->copied_out, slot->stream));
    return result;
}

/* Puts the task on the slot. Where a call fails, the stream may have part of the work already:
 * the slot and the task's memory are free only when the stream says so, as in the good case. */
static void slot_start(struct cuda_slot *slot, struct engine_task *task)
{
    struct cuda_device *device = slot->device;
    struct cuda_engine *cuda = device->engine;
    slot->base = -1;
    slot->busy = true;
    slot->started_ns = engine_now_ns();
    slot->task = task;
    task->slot = (uint32_t)(slot - device->slots);
    cudaError_t result = enqueue(slot, task);
    slot->measured = result == cudaSuccess;
    if (result != cudaSuccess && cuda_is_sticky(result)) {
        cuda_latch_fault(cuda, device, "starting a job", result);
        return;
    }
    if (result != cudaSuccess)
        error_set(&task->error, STATUS_GPU_FAILED, "%s: starting the job: %s (%s)", device->name,
                  cudaGetErrorString(result), cudaGetErrorName(result));
    result = CUDA_TRY(cudaLaunchHostFunc(slot->stream, stream_ended, slot));
    if (result != cudaSuccess)
        cuda_latch_fault(cuda, device, "asking a stream to report", result);
}

/* Ends a waiting task whose deadline has passed; it is on no list. */
static void expire(struct cuda_device *device, struct engine_task *task)
{
    error_set(&task->error, STATUS_TIMEOUT, "the deadline passed while the job waited for %s",
              device->name);
    list_push(&device->engine->finished, &task->node);
}

static bool expired(const struct engine_task *task, uint64_t now_ns)
{
    return task->deadline_ns && now_ns > task->deadline_ns;
}

static struct cuda_slot *free_slot(struct cuda_device *device)
{
    for (uint32_t s = 0; s < device->slot_count; s++)
        if (!device->slots[s].busy)
            return &device->slots[s];
    return NULL;
}

static void start_waiting(struct cuda_device *device)
{
    struct cuda_slot *slot;
    while (!device->engine->base.fault.status && !list_empty(&device->waiting) &&
           (slot = free_slot(device))) {
        struct list_node *node = list_pop(&device->waiting);
        struct engine_task *task = container_of(node, struct engine_task, node);
        if (expired(task, engine_now_ns()))
            expire(device, task);
        else
            slot_start(slot, task);
    }
}

void cuda_submit(struct engine *engine, struct engine_task *task)
{
    struct cuda_engine *cuda = cuda_engine(engine);
    struct cuda_device *device = &cuda->devices[task->memory->device];
    task->error.status = STATUS_OK;
    task->on_device = false;
    task->h2d_ms = task->kernel_ms = task->d2h_ms = 0;
    task->started_ns = 0;
    if (cuda->base.fault.status || task->plan->idle) {
        if (cuda->base.fault.status)
            fail_task(cuda, task, false);
        else
            list_push(&cuda->finished, &task->node);
        if (cuda->wake)
            cuda->wake(cuda->wake_context);
        return;
    }
    list_push(&device->waiting, &task->node);
    start_waiting(device);
    if (!list_empty(&cuda->finished) && cuda->wake)
        cuda->wake(cuda->wake_context);
}

/* ---- off the stream ---- */

static double elapsed_ms(cudaEvent_t from, cudaEvent_t to)
{
    float ms = 0;
    if (cudaEventElapsedTime(&ms, from, to) != cudaSuccess)
        (void)cudaGetLastError();
    return (double)ms;
}

/* A copy that waits for another one's turn on the same copy engine counts as copying: the union
 * of the intervals is not changed by it. */
static void take_times(struct cuda_slot *slot)
{
    struct cuda_device *device = slot->device;
    struct engine_task *task = slot->task;
    double start_s, copied_in_s, computed_s, copied_out_s;
    task->h2d_ms = elapsed_ms(slot->start, slot->copied_in);
    task->kernel_ms = elapsed_ms(slot->copied_in, slot->computed);
    task->d2h_ms = elapsed_ms(slot->computed, slot->copied_out);
    device->h2d_bytes += task->plan->input_bytes;
    device->d2h_bytes += task->plan->output_bytes;
    if (!cuda_clock_time(device, slot, slot->start, &start_s) ||
        !cuda_clock_time(device, slot, slot->copied_in, &copied_in_s) ||
        !cuda_clock_time(device, slot, slot->computed, &computed_s) ||
        !cuda_clock_time(device, slot, slot->copied_out, &copied_out_s))
        return;
    task->started_ns = cuda_clock_host_ns(device, slot, start_s, copied_out_s);
    activity_add(&device->activity, ACTIVITY_H2D, start_s, copied_in_s);
    activity_add(&device->activity, ACTIVITY_KERNEL, copied_in_s, computed_s);
    activity_add(&device->activity, ACTIVITY_D2H, computed_s, copied_out_s);
    activity_add(&device->activity, ACTIVITY_ANY, start_s, copied_out_s);
}

static void slot_end(struct cuda_slot *slot, uint64_t now_ns)
{
    struct cuda_device *device = slot->device;
    struct cuda_engine *cuda = device->engine;
    struct engine_task *task = slot->task;
    if (!task)
        return; /* answered when the device failed; the slot stays out of use */
    cudaError_t result = cuda_query(slot->stream);
    if (result != cudaSuccess && result != cudaErrorNotReady) {
        cuda_latch_fault(cuda, device, "at the end of a job", result);
        return;
    }
    if (slot->measured)
        take_times(slot);
    if (expired(task, now_ns))
        error_set(&task->error, STATUS_TIMEOUT, "the deadline passed while the job was on %s",
                  device->name);
    cuda_clock_stop(device, slot);
    slot->task = NULL;
    slot->busy = false;
    list_push(&cuda->finished, &task->node);
}

static bool is_overdue(const struct cuda_slot *slot, uint64_t now_ns)
{
    const struct cuda_engine *cuda = slot->device->engine;
    return slot->task->deadline_ns && now_ns > slot->task->deadline_ns + cuda->hang_grace_ns &&
           now_ns > slot->started_ns + cuda->hang_grace_ns &&
           now_ns > cuda->awake_ns + cuda->hang_grace_ns;
}

/* Whether the report came since the ended list was looked at last. */
static bool has_reported(const struct cuda_slot *slot)
{
    struct cuda_engine *cuda = slot->device->engine;
    pthread_mutex_lock(&cuda->lock);
    bool reported = slot->ended_node.next != NULL;
    pthread_mutex_unlock(&cuda->lock);
    return reported;
}

/* Ends what waits beyond its deadline, and finds out about devices that will not report. */
static void poll_device(struct cuda_device *device, uint64_t now_ns)
{
    struct cuda_engine *cuda = device->engine;
    list_each_safe(node, after, &device->waiting)
    {
        struct engine_task *task = container_of(node, struct engine_task, node);
        if (!expired(task, now_ns))
            continue;
        list_remove(&device->waiting, node);
        expire(device, task);
    }
    for (uint32_t s = 0; s < device->slot_count && !cuda->base.fault.status; s++) {
        const struct cuda_slot *slot = &device->slots[s];
        if (!slot->task)
            continue;
        cudaError_t result = cuda_query(slot->stream);
        if (result != cudaSuccess && result != cudaErrorNotReady)
            cuda_latch_fault(cuda, device, "while jobs were on it", result);
        else if (!is_overdue(slot, now_ns) || has_reported(slot))
            continue;
        else if (result == cudaErrorNotReady)
            cuda_latch_fault(cuda, device, "a job hangs: its deadline is long past", cudaSuccess);
        else
            cuda_latch_fault(cuda, device, "a stream has ended its job and does not report it",
                             cudaSuccess);
    }
}

static void poll_devices(struct cuda_engine *cuda, uint64_t now_ns)
{
    cuda->polled_ns = now_ns;
    for (uint32_t d = 0; d < cuda->device_count; d++)
        poll_device(&cuda->devices[d], now_ns);
}

void cuda_note_error(struct cuda_device *device, const char *what, cudaError_t result)
{
    struct cuda_engine *cuda = device->engine;
    if (!cuda_is_sticky(result))
        return;
    poll_devices(cuda, engine_now_ns());
    cuda_latch_fault(cuda, device, what, result);
}

void cuda_reap(struct engine *engine)
{
    struct cuda_engine *cuda = cuda_engine(engine);
    uint64_t now_ns = engine_now_ns();
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
        start_waiting(slot->device);
    }
    if (now_ns - cuda->polled_ns >= DEVICE_POLL_NS)
        poll_devices(cuda, now_ns);
    /* A done may submit a task that ends at once: that one is for the next call, which its
     * submission has asked for. */
    for (size_t left = cuda->finished.length; left > 0; left--) {
        struct list_node *node = list_pop(&cuda->finished);
        struct engine_task *task = container_of(node, struct engine_task, node);
        task->done(task);
    }
}
