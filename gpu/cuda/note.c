/* note.c - turns the error of a CUDA call into the error of the tasks for which it was made. */
#include "gpu/cuda/device.h"
#include "gpu/cuda/try.h"

cudaError_t cuda_note_task(const struct cuda_slot *slot, struct engine_task *task,
                           cudaError_t result)
{
    if (result == cudaSuccess || cuda_is_sticky(result))
        return result;
    error_set(&task->error, STATUS_GPU_FAILED, "%s: starting the job: %s (%s)",
              slot->device->base.name, cudaGetErrorString(result), cudaGetErrorName(result));
    return cudaSuccess;
}

cudaError_t cuda_note_tasks(const struct cuda_slot *slot, cudaError_t result)
{
    if (result == cudaSuccess || cuda_is_sticky(result))
        return result;
    list_each(node, &slot->tasks)
        if (cuda_task(node)->error.status == STATUS_OK)
            (void)!cuda_note_task(slot, cuda_task(node), result);
    return cudaSuccess;
}
