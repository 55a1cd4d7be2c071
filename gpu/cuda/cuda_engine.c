/*
 * cuda_engine.c - opens and closes the CUDA engine, and reserves memory for jobs on its devices.
 *
 * It implements the functions of struct engine_table (gpu/engine/engine_impl.h), but for submit.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conf/clock.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/try.h"

/* ---- memory ---- */

/* Whether device a should get the next job rather than b: it has fewer jobs, or as many and more
 * free memory. */
static bool device_before(const struct cuda_device *a, const struct cuda_device *b)
{
    unsigned of_a = atomic_load(&a->reserved), of_b = atomic_load(&b->reserved);
    if (of_a != of_b)
        return of_a < of_b;
    struct pool_usage ua = pool_usage(a->base.pool), ub = pool_usage(b->base.pool);
    return ua.budget - ua.used > ub.budget - ub.used;
}

/* Sorts the devices by preference. Insertion sort is enough for a few devices. */
static void order_devices(struct cuda_engine *cuda, uint32_t *order)
{
    for (uint32_t d = 0; d < cuda->base.device_count; d++) {
        uint32_t at = d;
        for (; at > 0 && device_before(&cuda->devices[d], &cuda->devices[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
}

/* Reserves device memory on the device `index`. ENGINE_NEVER: waiting cannot help; no error is
 * set. */
static enum engine_reserved take_from(struct cuda_engine *cuda, uint32_t index, size_t bytes,
                                      struct engine_memory *memory)
{
    struct cuda_device *device = &cuda->devices[index];
    bool exhausted;
    if (!pool_take(device->base.pool, bytes, &memory->device_block, &exhausted))
        return exhausted ? ENGINE_NEVER : ENGINE_WAIT;
    memory->device = index;
    atomic_fetch_add(&device->reserved, 1);
    return ENGINE_RESERVED;
}

/* As take_from, on the best device in service that has the memory. ENGINE_WAIT: a device may have
 * the memory later; this includes devices that are out of service, because they may come back. */
static enum engine_reserved take_from_best(struct cuda_engine *cuda, size_t bytes,
                                           struct engine_memory *memory)
{
    uint32_t order[DEVICES_MAX];
    enum engine_reserved reserved = ENGINE_NEVER;
    order_devices(cuda, order);
    for (uint32_t i = 0; i < cuda->base.device_count && reserved != ENGINE_RESERVED; i++) {
        const struct cuda_device *device = &cuda->devices[order[i]];
        enum engine_device_state state = cuda_device_state(device);
        enum engine_reserved here = ENGINE_NEVER;
        if (state == DEVICE_IN_SERVICE)
            here = take_from(cuda, order[i], bytes, memory);
        else if (state == DEVICE_OUT && pool_fits(device->base.pool, bytes))
            here = ENGINE_WAIT;
        if (here != ENGINE_NEVER)
            reserved = here;
    }
    return reserved;
}

static enum engine_reserved take_device(struct cuda_engine *cuda, uint32_t wanted, size_t bytes,
                                        struct engine_memory *memory, struct error *error)
{
    if (bytes == 0)
        return ENGINE_RESERVED;
    enum engine_reserved reserved = wanted == ENGINE_ANY_DEVICE
                                        ? take_from_best(cuda, bytes, memory)
                                        : take_from(cuda, wanted, bytes, memory);
    if (reserved != ENGINE_NEVER)
        return reserved;
    uint32_t named = wanted == ENGINE_ANY_DEVICE ? 0 : wanted;
    return engine_never(cuda->devices[named].base.pool, bytes, "device_bytes", error);
}

/* Keeps pinned memory that a failed device may still write to, until the engine is closed. If the
 * list's node cannot be allocated, the memory is lost until the process ends. */
static void keep_stuck(struct cuda_engine *cuda, struct engine_memory *memory)
{
    struct stuck_block *stuck = calloc(1, sizeof *stuck);
    if (!stuck)
        return;
    stuck->block = memory->pinned_block;
    pthread_mutex_lock(&cuda->lock);
    list_push(&cuda->stuck, &stuck->node);
    pthread_mutex_unlock(&cuda->lock);
}

static void cuda_release(struct engine *engine, struct engine_memory *memory)
{
    struct cuda_engine *cuda = cuda_engine(engine);
    if (memory->device_block.memory) {
        struct cuda_device *device = &cuda->devices[memory->device];
        atomic_fetch_sub(&device->reserved, 1);
        pool_give(device->base.pool, &memory->device_block);
    }
    if (memory->stuck && !engine_fault(engine)) /* after a fault no job gets memory anyway */
        keep_stuck(cuda, memory);
    else
        pool_give(engine->pinned, &memory->pinned_block);
}

static enum engine_reserved cuda_reserve(struct engine *engine, uint32_t device,
                                         const struct plan *plan, struct engine_memory *memory,
                                         struct error *error)
{
    struct cuda_engine *cuda = cuda_engine(engine);
    if (engine_fault(engine)) /* copies of failed tasks may still write to pinned memory */
        return ENGINE_WAIT;
    if (device != ENGINE_ANY_DEVICE && engine_device_state(engine, device) == DEVICE_FAILED) {
        error_set(error, STATUS_GPU_FAILED, "%s has failed", engine_name(engine, device));
        return ENGINE_NEVER;
    }
    enum engine_reserved reserved = engine_take_pinned(engine, plan, 0, memory, error);
    if (reserved == ENGINE_RESERVED) {
        memory->scratch = NULL;
        reserved = take_device(cuda, device, plan->device_bytes, memory, error);
    }
    if (engine_fault(engine)) { /* an allocation above has found the fault */
        error->status = STATUS_OK;
        reserved = ENGINE_WAIT;
    }
    if (reserved != ENGINE_RESERVED) {
        cuda_release(engine, memory);
        memset(memory, 0, sizeof(*memory));
    }
    return reserved;
}

/* ---- closing ---- */

/* Whether no stream of the device runs anything. This includes the streams of free slots: a slot is
 * free as soon as the callback stream_ended (thread.c) has reported it, but the callback may still
 * hold the device's lock, and the stream runs until it returns. */
static bool device_idle(struct cuda_device *device)
{
    bool idle = true;
    (void)cudaSetDevice(device->ordinal);
    for (uint32_t s = 0; s < cuda_slot_count(device); s++)
        if (cuda_query(device->slots[s].stream) == cudaErrorNotReady)
            idle = false;
    return idle;
}

/* Closes the devices that were opened, and frees the engine. No device may run a task. */
static void cuda_free_engine(struct cuda_engine *cuda)
{
    struct list_node *node;
    while ((node = list_pop(&cuda->stuck))) {
        struct stuck_block *stuck = container_of(node, struct stuck_block, node);
        pool_give(cuda->base.pinned, &stuck->block);
        free(stuck);
    }
    for (uint32_t d = 0; d < cuda->base.device_count; d++)
        cuda_device_close(&cuda->devices[d]);
    pool_destroy(cuda->base.pinned);
    pthread_mutex_destroy(&cuda->lock);
    free(cuda);
}

/* Unfinished tasks are dropped, and their `done` is not called. A caller that needs their results
 * must wait for them before it closes the engine. */
static void cuda_close(struct engine *engine)
{
    struct cuda_engine *cuda = cuda_engine(engine);
    const struct timespec pause = {0, 1000000};
    uint64_t until_ns = clock_now_ns() + DEVICE_CLOSE_NS;
    for (uint32_t d = 0; d < cuda->base.device_count; d++) {
        bool stopped = cuda_thread_stop(&cuda->devices[d], until_ns);
        while (!stopped || !device_idle(&cuda->devices[d])) {
            if (!stopped || clock_now_ns() > until_ns) {
                log_error("%s is still running jobs; the system will free its memory",
                          cuda->devices[d].base.name);
                return;
            }
            nanosleep(&pause, NULL);
        }
    }
    cuda_free_engine(cuda);
}

static uint64_t cuda_cpu_ns(const struct engine *engine)
{
    const struct cuda_engine *cuda = (const struct cuda_engine *)engine;
    uint64_t sum_ns = 0;
    for (uint32_t d = 0; d < engine->device_count; d++)
        sum_ns += cuda_thread_cpu_ns(&cuda->devices[d]);
    return sum_ns;
}

static void cuda_set_in_service(struct engine *engine, uint32_t device, bool in_service,
                                const char *why)
{
    cuda_device_move(&cuda_engine(engine)->devices[device],
                     in_service ? DEVICE_IN_SERVICE : DEVICE_OUT, false, why);
}

/* The codec's kernels write to the output buffer in host memory, which therefore must be pinned. */
static bool cuda_prepare_codecs(struct engine *engine)
{
    struct cuda_engine *cuda = container_of(engine, struct cuda_engine, base);
    bool ready = !atomic_load(&cuda->has_pageable);
    for (uint32_t d = 0; d < engine->device_count && ready; d++)
        ready = cuda_device_prepare_codecs(&cuda->devices[d]) == cudaSuccess;
    if (!ready)
        log_warning("no memory for the codecs of the devices: those of the CPU run instead");
    return ready;
}

static const struct engine_table cuda_table = {
    .prepare_codecs = cuda_prepare_codecs,
    .close = cuda_close,
    .reserve = cuda_reserve,
    .release = cuda_release,
    .submit = cuda_submit,
    .set_in_service = cuda_set_in_service,
    .cpu_ns = cuda_cpu_ns,
};

/* ---- opening ---- */

static void all_devices(uint32_t count, int *ordinals)
{
    for (uint32_t i = 0; i < count; i++)
        ordinals[i] = (int)i;
}

/* Parses "all" or "0,2" into ordinals. Returns their number, or 0 with the error set. */
static uint32_t parse_devices(const char *text, int present, int *ordinals, struct error *error)
{
    uint32_t count = 0;
    if (!text || strcmp(text, "all") == 0) {
        count = present < DEVICES_MAX ? (uint32_t)present : DEVICES_MAX;
        all_devices(count, ordinals);
        return count;
    }
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        long ordinal = strtol(at, &end, 10);
        bool twice = false;
        for (uint32_t i = 0; i < count; i++)
            twice = twice || ordinals[i] == ordinal;
        if (end == at || errno || (*end && *end != ',') || twice || count == DEVICES_MAX) {
            error_set(error, STATUS_GPU_FAILED,
                      "devices is \"%.60s\"; it must be all, or at most %d different numbers or "
                      "UUIDs separated by commas", text, DEVICES_MAX);
            return 0;
        }
        if (ordinal < 0 || ordinal >= present) {
            error_set(error, STATUS_GPU_FAILED,
                      "devices includes %ld, but CUDA shows %d device(s), numbered from 0", ordinal,
                      present);
            return 0;
        }
        ordinals[count++] = (int)ordinal;
        if (*end == '\0')
            return count;
        at = end;
    }
}

static void describe(struct cuda_engine *cuda)
{
    struct cudaDeviceProp properties;
    int driver = 0;
    char several[24] = "";
    if (cudaGetDeviceProperties(&properties, cuda->devices[0].ordinal) != cudaSuccess ||
        cudaDriverGetVersion(&driver) != cudaSuccess) {
        (void)cudaGetLastError();
        snprintf(cuda->base.description, sizeof(cuda->base.description), "CUDA");
        return;
    }
    if (cuda->base.device_count > 1)
        snprintf(several, sizeof(several), "%u x ", cuda->base.device_count);
    snprintf(cuda->base.description, sizeof(cuda->base.description),
             "%s%.80s, %d SMs, %u streams, driver %d.%d", several, properties.name,
             properties.multiProcessorCount, cuda->devices[0].base.slot_count, driver / 1000,
             driver % 1000 / 10);
}

/* Writes to `reason` why CUDA has no usable device, and what to do. CUDA returns
 * cudaErrorInsufficientDriver also if no driver is installed; the driver's version is then 0. */
static void say_unusable(cudaError_t result, char *reason, size_t size)
{
    static const struct {
        cudaError_t result;
        const char *text;
    } known[] = {
        {cudaErrorNoDevice, "the NVIDIA driver shows no GPU to this process; nvidia-smi and "
                            "CUDA_VISIBLE_DEVICES show why"},
        {cudaErrorNotPermitted, "the NVIDIA driver does not permit this user to use the GPU; see "
                                "the owners of /dev/nvidia*"},
        {cudaErrorDevicesUnavailable, "the GPU is in exclusive or prohibited compute mode, or "
                                      "busy; nvidia-smi shows its processes"},
        {cudaErrorSystemNotReady, "the GPUs are not ready; is nvidia-fabricmanager running?"},
        {cudaErrorSystemDriverMismatch, "the NVIDIA driver's library and its kernel module are of "
                                        "different versions; reboot, or reload the module"},
        {cudaErrorCompatNotSupportedOnDevice, "CUDA's forward compatibility library does not "
                                              "support this GPU; remove the library and install "
                                              "a newer driver"},
    };
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaGetLastError();
    const char *name = cudaGetErrorName(result);
    if (result == cudaErrorInsufficientDriver && driver == 0) {
        snprintf(reason, size, "no NVIDIA driver is installed (%s); a GPU needs it", name);
        return;
    }
    if (result == cudaErrorInsufficientDriver) {
        snprintf(reason, size, "the NVIDIA driver is too old: it supports CUDA %d.%d, and gpuimgd "
                 "was built with %d.%d (%s); install a newer driver", driver / 1000,
                 driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, name);
        return;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].result == result) {
            snprintf(reason, size, "%s (%s)", known[i].text, name);
            return;
        }
    }
    snprintf(reason, size, "CUDA does not start: %s (%s); does nvidia-smi work for this user?",
             cudaGetErrorString(result), name);
}

/* Streams that share a hardware queue wait for each other's kernels. CUDA uses 8 of these queues by
 * default, and 32 at most. */
#define HARDWARE_QUEUES "32"

enum status engine_cuda_open(const struct engine_config *config, struct engine **engine,
                             bool *usable, char *reason, size_t reason_size, struct error *error)
{
    int present = 0, ordinals[DEVICES_MAX];
    uint32_t count = 0, named = 0;
    *usable = false;
    /* CUDA reads the variable at its first call. No other thread runs yet, so setenv is safe. */
    if (setenv("CUDA_DEVICE_MAX_CONNECTIONS", HARDWARE_QUEUES, 0) != 0) /* uncovered: memory */
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the environment of CUDA");
    if (cuda_uuids_given(config->devices) &&
        (named = cuda_uuids_select(config->devices, error)) == 0)
        return error->status;
    cudaError_t result = cudaGetDeviceCount(&present);
    if (named > 0 && (result == cudaSuccess || result == cudaErrorNoDevice) &&
        (uint32_t)present != named)
        return error_set(error, STATUS_GPU_FAILED,
                         "devices names %u device(s) by UUID, but CUDA shows %d of them; "
                         "nvidia-smi -L lists the UUIDs, and CUDA shows at most one MIG instance "
                         "to a process", named, present);
    *usable = result == cudaSuccess && present > 0;
    if (!*usable) {
        (void)cudaGetLastError();
        say_unusable(result == cudaSuccess ? cudaErrorNoDevice : result, reason, reason_size);
        return STATUS_OK;
    }
    count = parse_devices(named > 0 ? "all" : config->devices, present, ordinals, error);
    if (count == 0)
        return error->status;
    if (config->streams > STREAMS_CEILING)
        return error_set(error, STATUS_GPU_FAILED, "streams is %u; it must be auto, or 1 to %d",
                         config->streams, STREAMS_CEILING);

    struct cuda_engine *cuda = calloc(1, sizeof(*cuda));
    if (!cuda)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the CUDA engine");
    cuda->base.table = &cuda_table;
    cuda->failed = config->failed;
    cuda->context = config->context;
    cuda->hang_grace_ns =
        (uint64_t)((config->hang_grace_s > 0 ? config->hang_grace_s : DEVICE_HANG_GRACE_S) * 1e9);
    pthread_mutex_init(&cuda->lock, NULL);
    list_init(&cuda->stuck);
    struct pool_backend pinned = cuda_pinned_backend(cuda);
    cuda->base.pinned = pool_create("pinned", config->pinned_bytes, POOL_SEGMENT_BYTES, &pinned);
    enum status status = STATUS_OK;
    if (!cuda->base.pinned)
        status = error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the CUDA engine's pool");
    for (uint32_t d = 0; d < count && !status; d++) {
        cuda->base.device_count = d + 1;
        cuda->base.devices[d] = &cuda->devices[d].base;
        status = cuda_device_open(&cuda->devices[d], cuda, ordinals[d], config, error);
    }
    for (uint32_t d = 0; d < count && !status; d++)
        if (!cuda_thread_start(&cuda->devices[d]))
            status = error_set(error, STATUS_OUT_OF_MEMORY, "no thread can be started for %s",
                               cuda->devices[d].base.name);
    if (status) {
        for (uint32_t d = 0; d < cuda->base.device_count; d++)
            (void)cuda_thread_stop(&cuda->devices[d], clock_now_ns() + DEVICE_CLOSE_NS);
        cuda_free_engine(cuda);
        return status;
    }
    describe(cuda);
    *engine = &cuda->base;
    return STATUS_OK;
}
