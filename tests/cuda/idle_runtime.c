/*
 * idle_runtime.c - a CUDA runtime for bench_images, with a device that computes nothing.
 *
 * Copies and kernels do nothing. A batch takes $IDLE_DEVICE_US of time (100), one after the other;
 * then a thread calls the host function that ends it. So the bench measures the host's part of the
 * engine, without a device.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conf/clock.h"
#include "conf/list.h"
#include "tests/cuda/cuda_runtime.h"
#include "tests/cuda/launch.h"

#define DEVICE_BYTES (64ull << 30)
#define BATCHES_MAX  256

struct CUstream_st {
    bool busy;
};

struct CUevent_st {
    int unused;
};

struct batch {
    cudaStream_t stream;
    cudaHostFn_t call;
    void *argument;
    uint64_t until_ns;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_once_t once;
    struct batch batches[BATCHES_MAX];
    size_t first, count;
    uint64_t batch_ns, until_ns;
} device = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER,
            .once = PTHREAD_ONCE_INIT};

static void *run_device(void *unused)
{
    pthread_mutex_lock(&device.lock);
    for (;;) {
        while (device.count == 0)
            pthread_cond_wait(&device.wake, &device.lock);
        struct batch batch = device.batches[device.first];
        device.first = (device.first + 1) % BATCHES_MAX;
        device.count--;
        pthread_mutex_unlock(&device.lock);
        struct timespec until = {(time_t)(batch.until_ns / NS_PER_S),
                                 (long)(batch.until_ns % NS_PER_S)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        pthread_mutex_lock(&device.lock);
        batch.stream->busy = false;
        pthread_mutex_unlock(&device.lock);
        batch.call(batch.argument);
        pthread_mutex_lock(&device.lock);
    }
    return unused;
}

static void start_device(void)
{
    const char *us = getenv("IDLE_DEVICE_US");
    pthread_t thread;
    device.batch_ns = (us ? strtoull(us, NULL, 10) : 100) * 1000;
    if (pthread_create(&thread, NULL, run_device, NULL) != 0)
        abort();
    pthread_detach(thread);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void *argument)
{
    uint64_t now_ns = clock_now_ns();
    pthread_once(&device.once, start_device);
    pthread_mutex_lock(&device.lock);
    device.until_ns = (device.until_ns > now_ns ? device.until_ns : now_ns) + device.batch_ns;
    if (device.count == BATCHES_MAX)
        abort();
    device.batches[(device.first + device.count++) % BATCHES_MAX] =
        (struct batch){stream, call, argument, device.until_ns};
    stream->busy = true;
    pthread_cond_signal(&device.wake);
    pthread_mutex_unlock(&device.lock);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    pthread_mutex_lock(&device.lock);
    bool busy = stream->busy;
    pthread_mutex_unlock(&device.lock);
    return busy ? cudaErrorNotReady : cudaSuccess;
}

/* ---- what does nothing ----------------------------------------------------------------------- */

int cuda_launch_many(const struct pass_call *calls, uint32_t count, struct CUstream_st *stream)
{
    (void)calls, (void)count, (void)stream;
    return cudaSuccess;
}

int cuda_launch(const struct pass *pass, const struct image *from, const struct image *to,
                uint8_t *work, struct CUstream_st *stream)
{
    (void)pass, (void)from, (void)to, (void)work, (void)stream;
    return cudaSuccess;
}

/* `argument` is what simt.c has allocated for the launch. */
cudaError_t cuda_launch_codec(cudaStream_t stream, cudaHostFn_t call, void *argument)
{
    (void)stream, (void)call;
    free(argument);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)to, (void)from, (void)bytes, (void)kind, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    (void)to, (void)byte, (void)bytes, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    (void)from, (void)to;
    *ms = 0.02f;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int number)
{
    (void)number;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

/* ---- devices -------------------------------------------------------------------------------- */

static cudaError_t allocate(void **memory, size_t bytes)
{
    *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    return allocate(memory, bytes);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return allocate(memory, bytes);
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    return cudaFree(memory);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    return *stream ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)priority;
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
    (void)memory;
    attributes->type = cudaMemoryTypeHost;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = DEVICE_BYTES;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *lowest, int *highest)
{
    *lowest = *highest = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int number)
{
    (void)number;
    *value = attribute == cudaDevAttrMultiProcessorCount        ? 132
             : attribute == cudaDevAttrAsyncEngineCount         ? 2
             : attribute == cudaDevAttrComputeCapabilityMajor   ? 9
             : attribute == cudaDevAttrComputeCapabilityMinor   ? 0
                                                                : 228 << 10;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int number)
{
    (void)number;
    strcpy(properties->name, "a device that computes nothing");
    properties->multiProcessorCount = 132;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *number)
{
    *number = 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    return cudaRuntimeGetVersion(version);
}

const char *cudaGetErrorName(cudaError_t error)
{
    (void)error;
    return "error";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}
