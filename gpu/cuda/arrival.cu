/*
 * arrival.cu - a large result that comes back in pieces, whose owner is told of each.
 *
 * Between two pieces its stream calls the host; behind the last one that reports its end, as ever.
 * Each piece ends at twice where the one before it did: few calls for a large result, and the first
 * one soon. A device that fails may make such a call still when the task has been answered: it then
 * finds nobody to tell.
 */
#include "gpu/cuda/device.h"

#include "gpu/cuda/try.h"

static_assert(ARRIVAL_BYTES_MIN > BATCH_TASK_BYTES, "such a task has its slot to itself");

bool cuda_arrival_is_told(const struct engine_task *task)
{
    return task->arrived && task->plan->output_bytes >= ARRIVAL_BYTES_MIN;
}

static void tell_of(struct cuda_slot *slot, struct engine_task *task)
{
    struct cuda_engine *cuda = slot->device->engine;
    pthread_mutex_lock(&cuda->lock);
    slot->told = task;
    slot->told_bytes = 0;
    pthread_mutex_unlock(&cuda->lock);
}

void cuda_arrival_stop(struct cuda_slot *slot)
{
    tell_of(slot, NULL);
}

static size_t piece_end(size_t begin)
{
    return begin == 0 ? STRIP_BYTES : 2 * begin;
}

/* On a thread of the driver: no CUDA call is allowed here. */
static void CUDART_CB piece_arrived(void *argument)
{
    struct cuda_slot *slot = (struct cuda_slot *)argument;
    struct cuda_engine *cuda = slot->device->engine;
    pthread_mutex_lock(&cuda->lock);
    slot->told_bytes = piece_end(slot->told_bytes);
    if (slot->told)
        slot->told->arrived(slot->told, slot->told_bytes);
    pthread_mutex_unlock(&cuda->lock);
}

cudaError_t cuda_arrival_copy(struct cuda_slot *slot, struct engine_task *task,
                              const uint8_t *from)
{
    uint8_t *to = task->memory->output;
    size_t all = task->plan->output_bytes, begin = 0;
    cudaError_t result = cudaSuccess;
    tell_of(slot, task);
    for (size_t end; result == cudaSuccess && (end = piece_end(begin)) < all; begin = end) {
        result = CUDA_TRY(cudaMemcpyAsync(to + begin, from + begin, end - begin,
                                          cudaMemcpyDeviceToHost, slot->stream));
        if (result == cudaSuccess)
            result = CUDA_TRY(cudaLaunchHostFunc(slot->stream, piece_arrived, slot));
    }
    if (result == cudaSuccess)
        result = CUDA_TRY(cudaMemcpyAsync(to + begin, from + begin, all - begin,
                                          cudaMemcpyDeviceToHost, slot->stream));
    return result;
}
