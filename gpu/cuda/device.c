/* device.c - opens a CUDA device, allocates its memory, and reads its clock. */
#include "gpu/cuda/device.h"

#include <stdio.h>
#include <stdlib.h>

#include "conf/clock.h"
#include "conf/lock.h"
#include "gpu/cuda/try.h"

/* Streams of a device if the option is auto. An H200 copies both ways at once. With 4 streams it
 * needs up to 1.14 times the time of copies or kernels alone, with 8 at most 1.05; 16 gain nothing.
 * A device with one copy engine has less to overlap, so it gets 4. */
#define STREAMS_BOTH_WAYS 8
#define STREAMS_ONE_WAY   4

/* Age at which a base of the clock is renewed. CUDA gives the time since the base as a float in
 * milliseconds, which at 2 s has a precision of 0.2 us. */
#define CLOCK_RENEW_NS 2000000000ull

/* ---- memory ---- */

static void *device_alloc(void *context, size_t bytes)
{
    struct cuda_device *device = context;
    void *memory = NULL;
    cudaError_t result = CUDA_TRY(cudaSetDevice(device->ordinal));
    if (result == cudaSuccess)
        result = CUDA_TRY(cudaMalloc(&memory, bytes));
    if (result == cudaSuccess)
        return memory;
    cuda_note_error(device, "taking device memory", result);
    return NULL;
}

static void device_free(void *context, void *memory, size_t bytes)
{
    struct cuda_device *device = context;
    (void)bytes;
    /* Both calls fail after a sticky error. The memory is then lost until the process ends. */
    (void)cudaSetDevice(device->ordinal);
    (void)cudaFree(memory);
    (void)cudaGetLastError();
}

static void *pinned_alloc(void *context, size_t bytes)
{
    struct cuda_engine *engine = context;
    void *memory = NULL;
    /* Without a selected device, CUDA would create a context on device 0, which the engine may not
     * use. */
    cudaError_t result = cudaSetDevice(engine->devices[0].ordinal);
    if (result == cudaSuccess)
        result = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    if (result == cudaSuccess)
        return memory;
    (void)cudaGetLastError();
    cuda_note_error(&engine->devices[0], "taking pinned memory", result);
    if (atomic_load(&engine->base.failed))
        return NULL;
    if (!atomic_exchange(&engine->has_pageable, true))
        log_warning("no pinned memory is available (%s); using pageable memory, which copies "
                    "slower", cudaGetErrorName(result));
    return pool_backend_pages.alloc(NULL, bytes);
}

static void pinned_free(void *context, void *memory, size_t bytes)
{
    struct cudaPointerAttributes attributes;
    (void)context;
    if (cudaPointerGetAttributes(&attributes, memory) == cudaSuccess) {
        if (attributes.type == cudaMemoryTypeHost)
            (void)cudaFreeHost(memory);
        else
            pool_backend_pages.free(NULL, memory, bytes);
    }
    (void)cudaGetLastError();
}

struct pool_backend cuda_pinned_backend(struct cuda_engine *engine)
{
    struct pool_backend backend = {pinned_alloc, pinned_free, engine};
    return backend;
}

/* ---- opening and closing ---- */

static cudaError_t slot_open(struct cuda_device *device, struct cuda_slot *slot, int priority)
{
    cudaEvent_t *events[] = {&slot->start,  &slot->copied_in, &slot->decoded,
                             &slot->passed, &slot->computed,  &slot->copied_out};
    slot->device = device;
    list_init(&slot->tasks);
    cudaError_t result = CUDA_TRY(
        cudaStreamCreateWithPriority(&slot->stream, cudaStreamNonBlocking, priority));
    for (size_t i = 0; i < sizeof events / sizeof *events && result == cudaSuccess; i++)
        result = CUDA_TRY(cudaEventCreateWithFlags(events[i], cudaEventDefault));
    return result;
}

static void slot_close(struct cuda_slot *slot)
{
    cudaEvent_t events[] = {slot->start,  slot->copied_in, slot->decoded,
                            slot->passed, slot->computed,  slot->copied_out};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            (void)cudaEventDestroy(events[i]);
    cuda_codec_close(slot);
    if (slot->stream)
        (void)cudaStreamDestroy(slot->stream);
}

/* Opens the general slots. Their streams have the highest priority, so that their short kernels do
 * not wait for the kernels of the long slots. */
static cudaError_t slots_open(struct cuda_device *device)
{
    int lowest = 0, highest = 0;
    cudaError_t result = CUDA_TRY(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    for (uint32_t s = 0; s < device->base.slot_count && result == cudaSuccess; s++)
        result = slot_open(device, &device->slots[s], highest);
    return result;
}

/* After an error long_count is still 0, so that the slots are not used. */
static cudaError_t long_slots_open(struct cuda_device *device)
{
    int lowest = 0, highest = 0;
    struct cuda_slot *slots = device->slots + device->base.slot_count;
    cudaError_t result = CUDA_TRY(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    for (uint32_t s = 0; s < LONG_STREAMS && result == cudaSuccess; s++) {
        result = slot_open(device, &slots[s], lowest);
        result = result ? result : cuda_codec_open(&slots[s], LONG_CODEC_BYTES);
        if (result != cudaSuccess)
            break;
        slots[s].codec.bytes = LONG_ROOM_BYTES;
        slots[s].codec.ended = (uint32_t *)(slots[s].codec.host + LONG_ROOM_BYTES);
    }
    if (result == cudaSuccess)
        atomic_store(&device->long_count, LONG_STREAMS);
    return result;
}

cudaError_t cuda_device_prepare_codecs(struct cuda_device *device)
{
    cudaError_t result = CUDA_TRY(cudaSetDevice(device->ordinal));
    for (uint32_t s = 0; s < device->base.slot_count && result == cudaSuccess; s++)
        result = cuda_codec_open(&device->slots[s], STREAM_CODEC_BYTES);
    return result ? result : long_slots_open(device);
}

static cudaError_t clock_open(struct cuda_device *device)
{
    struct cuda_clock *clock = &device->clock;
    cudaStream_t stream = device->slots[0].stream;
    cudaError_t result = CUDA_TRY(cudaEventCreate(&clock->base[0]));
    result = result ? result : CUDA_TRY(cudaEventCreate(&clock->base[1]));
    clock->host_ns[0] = clock_now_ns();
    result = result ? result : CUDA_TRY(cudaEventRecord(clock->base[0], stream));
    result = result ? result : CUDA_TRY(cudaStreamSynchronize(stream));
    clock->known[0] = true;
    clock->renewed_ns = clock_now_ns();
    return result;
}

/* *streams: the configured number, or by default one that depends on the number of the device's
 * copy engines. */
static cudaError_t choose_streams(int ordinal, const struct engine_config *config,
                                  uint32_t *streams)
{
    int copies_at_once = 0;
    *streams = config->streams;
    if (config->streams > 0)
        return cudaSuccess;
    cudaError_t result = CUDA_TRY(
        cudaDeviceGetAttribute(&copies_at_once, cudaDevAttrAsyncEngineCount, ordinal));
    *streams = copies_at_once >= 2 ? STREAMS_BOTH_WAYS : STREAMS_ONE_WAY;
    return result;
}

static size_t segment_bytes(size_t budget)
{
    size_t bytes = budget / DEVICE_SEGMENT_PART;
    bytes = bytes < DEVICE_SEGMENT_BYTES_MAX ? bytes : DEVICE_SEGMENT_BYTES_MAX;
    return bytes > POOL_SEGMENT_BYTES ? bytes : POOL_SEGMENT_BYTES;
}

static void lock_open(struct cuda_device *device)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&device->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    lock_init(&device->lock);
}

enum status cuda_device_open(struct cuda_device *device, struct cuda_engine *engine, int ordinal,
                             const struct engine_config *config, struct error *error)
{
    size_t free_bytes = 0, total_bytes = 0;
    uint32_t streams = 0;
    device->engine = engine;
    device->ordinal = ordinal;
    for (enum cuda_queue queue = 0; queue < QUEUES; queue++)
        list_init(&device->queues[queue]);
    list_init(&device->submitted);
    list_init(&device->ended);
    list_init(&device->finished);
    lock_open(device);
    snprintf(device->base.name, sizeof(device->base.name), "cuda:%d", ordinal);

    cudaError_t result = CUDA_TRY(cudaSetDevice(ordinal));
    result = result ? result : CUDA_TRY(cudaMemGetInfo(&free_bytes, &total_bytes));
    result = result ? result : choose_streams(ordinal, config, &streams);
    if (result != cudaSuccess)
        return error_set(error, STATUS_GPU_FAILED, "%s cannot be opened: %s (%s)",
                         device->base.name, cudaGetErrorString(result), cudaGetErrorName(result));

    struct pool_backend backend = {device_alloc, device_free, device};
    size_t budget = config->device_bytes ? config->device_bytes : free_bytes / 4;
    device->base.pool = pool_create("device", budget, segment_bytes(budget), &backend);
    device->slots = calloc(streams + LONG_STREAMS, sizeof(struct cuda_slot));
    if (!device->base.pool || !device->slots)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the slots of %s",
                         device->base.name);
    device->base.slot_count = streams;
    result = slots_open(device);
    result = result ? result : clock_open(device);
    if (result != cudaSuccess)
        return error_set(error, STATUS_GPU_FAILED, "%s: streams and events: %s (%s)",
                         device->base.name, cudaGetErrorString(result), cudaGetErrorName(result));
    return activity_open(&device->base.activity, error);
}

void cuda_device_close(struct cuda_device *device)
{
    if (device->base.pool)
        (void)cudaSetDevice(device->ordinal);
    for (uint32_t s = 0; device->slots && s < device->base.slot_count + LONG_STREAMS; s++)
        slot_close(&device->slots[s]);
    for (int i = 0; i < 2; i++)
        if (device->clock.base[i])
            (void)cudaEventDestroy(device->clock.base[i]);
    device->clock.base[0] = device->clock.base[1] = NULL;
    free(device->slots);
    device->slots = NULL;
    device->base.slot_count = 0;
    atomic_store(&device->long_count, 0);
    pool_destroy(device->base.pool);
    device->base.pool = NULL;
    activity_close(&device->base.activity);
    pthread_mutex_destroy(&device->lock);
    pthread_cond_destroy(&device->wake);
    (void)cudaGetLastError();
}

/* ---- time ---- */

/* Computes base_s of a renewed base. false: the device has not reached the base's event yet. */
static bool clock_know(struct cuda_clock *clock, int base)
{
    float ms;
    if (clock->known[base])
        return true;
    if (cudaEventElapsedTime(&ms, clock->base[!base], clock->base[base]) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    clock->base_s[base] = clock->base_s[!base] + (double)ms * 1e-3;
    clock->known[base] = true;
    return true;
}

cudaError_t cuda_clock_start(struct cuda_device *device, struct cuda_slot *slot)
{
    struct cuda_clock *clock = &device->clock;
    int other = !clock->current;
    uint64_t now_ns = clock_now_ns();
    if (now_ns - clock->renewed_ns > CLOCK_RENEW_NS && clock->users[other] == 0 &&
        clock_know(clock, clock->current)) {
        cudaError_t result = CUDA_TRY(cudaEventRecord(clock->base[other], slot->stream));
        if (result != cudaSuccess)
            return result;
        clock->known[other] = false;
        clock->host_ns[other] = now_ns;
        clock->current = other;
        clock->renewed_ns = now_ns;
    }
    slot->base = clock->current;
    clock->users[slot->base]++;
    return cudaSuccess;
}

void cuda_clock_stop(struct cuda_device *device, struct cuda_slot *slot)
{
    if (slot->base >= 0)
        device->clock.users[slot->base]--;
    slot->base = -1;
}

bool cuda_clock_time(struct cuda_device *device, const struct cuda_slot *slot, cudaEvent_t event,
                     double *time_s)
{
    struct cuda_clock *clock = &device->clock;
    float ms;
    if (!clock_know(clock, slot->base))
        return false;
    if (cudaEventElapsedTime(&ms, clock->base[slot->base], event) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    *time_s = clock->base_s[slot->base] + (double)ms * 1e-3;
    return true;
}

uint64_t cuda_clock_host_ns(struct cuda_device *device, const struct cuda_slot *slot,
                            double start_s, double end_s)
{
    struct cuda_clock *clock = &device->clock;
    int64_t after_base_ns = (int64_t)((start_s - clock->base_s[slot->base]) * 1e9);
    uint64_t took_ns = (uint64_t)((end_s - start_s) * 1e9), now_ns = clock_now_ns();
    uint64_t start_ns = clock->host_ns[slot->base] + (uint64_t)after_base_ns;
    if (start_ns < slot->started_ns) {
        clock->host_ns[slot->base] += slot->started_ns - start_ns;
        start_ns = slot->started_ns;
    }
    return start_ns + took_ns > now_ns ? now_ns - took_ns : start_ns;
}
