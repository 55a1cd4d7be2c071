/*
 * feed.cu - rows that go to a device before their task's turn, while the rest is decoded.
 *
 * They go on a stream of their own, which all tasks of the device share for it: no slot is held
 * meanwhile, and other tasks have their turns as ever. When the task's turn has come its slot's
 * stream waits for that one, and copies what is left; so whatever becomes of the task, its memory
 * is free when its turn has ended.
 */
#include "gpu/cuda/device.h"

#include "gpu/cuda/try.h"

void cuda_feed(struct engine *engine, struct engine_task *task, size_t bytes)
{
    struct cuda_engine *cuda = container_of(engine, struct cuda_engine, base);
    struct cuda_device *device = &cuda->devices[task->memory->device];
    uint8_t *to = (uint8_t *)task->memory->device_block.memory;
    size_t from = task->fed_bytes;
    if (cuda->base.fault.status || task->unfed || bytes <= from)
        return;
    task->fed = true;
    cudaError_t result = CUDA_TRY(cudaSetDevice(device->ordinal));
    if (result == cudaSuccess)
        result = CUDA_TRY(cudaMemcpyAsync(to + from, task->memory->input + from, bytes - from,
                                          cudaMemcpyHostToDevice, device->feed));
    if (result == cudaSuccess)
        task->fed_bytes = bytes;
    else if (cuda_is_sticky(result))
        cuda_latch_fault(cuda, device, "copying the first rows of a job", result);
    else
        task->unfed = true;
}

cudaError_t cuda_feed_await(struct cuda_slot *slot, const struct engine_task *task)
{
    struct cuda_device *device = slot->device;
    if (!task->fed)
        return cudaSuccess;
    cudaError_t result = CUDA_TRY(cudaEventRecord(device->fed, device->feed));
    if (result == cudaSuccess)
        result = CUDA_TRY(cudaStreamWaitEvent(slot->stream, device->fed, 0));
    return result;
}
