/*
 * runtime.c - the stand-in CUDA runtime: one thread and one queue per stream.
 *
 * As on a device, a stream executes its items in order while the caller continues. A lasting error
 * of a device fails every later call for that device and stops all its streams: no more copies are
 * made, and no host function is called.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/limits.h"
#include "conf/list.h"
#include "gpu/plan/pass.h"
#include "tests/cuda/cuda_runtime.h"
#include "tests/cuda/fault.h"
#include "tests/cuda/launch.h"

#define DEVICE_BYTES (1ull << 30)
#define PINNED_MAX 2048
#define TALLIES_MAX 40 /* names of calls */

enum kind { COPY, FILL, RECORD, REPORT, KERNEL, CODEC };

struct item {
    struct list_node node;
    enum kind kind;
    void *to;
    const void *from;
    size_t bytes;
    int byte; /* FILL */
    cudaEvent_t event;
    cudaHostFn_t call;
    struct launched *launched; /* owned */
    size_t count;
};

struct launched {
    struct pass pass;
    struct pass_call call;
};

#define RUNTIME_VERSION 12080

struct CUstream_st {
    int device;
    pthread_t thread;
    bool has_thread;   /* from the first item on */
    struct list items; /* the first one is running */
    bool closed;
};

struct CUevent_st {
    int device;
    bool taken;
    uint64_t time_ns;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct cuda_fault fault;
static unsigned happened, struck;
static cudaError_t broken[DEVICES_MAX];
static void *pinned[PINNED_MAX];
static struct cuda_given given;
static struct {
    const char *name;
    unsigned count;
} tallies[TALLIES_MAX];
static _Thread_local cudaError_t last;
static _Thread_local int current;

/* ---- fault injection ------------------------------------------------------------------------- */

static void take_word(const char *word)
{
    int bit;
    if (sscanf(word, "bit=%d", &bit) == 1)
        fault.bit = bit;
    else if (sscanf(word, "at=%39s", fault.at) != 1 &&
             sscanf(word, "error=%d", &fault.error) != 1 &&
             sscanf(word, "nth=%u", &fault.nth) != 1 &&
             sscanf(word, "times=%u", &fault.times) != 1 &&
             sscanf(word, "when=%127s", fault.when) != 1 &&
             sscanf(word, "hold=%127s", fault.hold) != 1 &&
             sscanf(word, "devices=%d", &fault.devices) != 1 &&
             sscanf(word, "copiers=%d", &fault.copiers) != 1 &&
             sscanf(word, "driver=%d", &fault.driver) != 1) {
        fprintf(stderr, "GPUIMGD_CUDA_FAULT: \"%s\" is not understood\n", word);
        _exit(99);
    }
}

static void read_environment(void)
{
    const char *text = getenv("GPUIMGD_CUDA_FAULT");
    char words[512], *rest = words;
    fault = (struct cuda_fault){.nth = 1, .times = 1, .devices = 1};
    snprintf(words, sizeof words, "%s", text ? text : "");
    for (char *word; (word = strsep(&rest, ","));)
        if (*word)
            take_word(word);
}

void cuda_fault_set(const struct cuda_fault *wanted)
{
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&lock);
    fault = *wanted;
    happened = struck = 0;
    memset(tallies, 0, sizeof tallies);
    memset(broken, 0, sizeof broken);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

unsigned cuda_fault_struck(void)
{
    pthread_mutex_lock(&lock);
    unsigned times = struck;
    pthread_mutex_unlock(&lock);
    return times;
}

unsigned cuda_fault_passed(void)
{
    pthread_mutex_lock(&lock);
    unsigned times = happened;
    pthread_mutex_unlock(&lock);
    return times;
}

unsigned cuda_calls(const char *name)
{
    unsigned count = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < TALLIES_MAX && tallies[i].name; i++)
        count += !name || strcmp(tallies[i].name, name) == 0 ? tallies[i].count : 0;
    pthread_mutex_unlock(&lock);
    return count;
}

/* Call with the lock held. */
static void count_call(const char *name)
{
    size_t i = 0;
    while (tallies[i].name && strcmp(tallies[i].name, name) != 0)
        if (++i == TALLIES_MAX)
            abort();
    tallies[i].name = name;
    tallies[i].count++;
}

bool cuda_fault_lasts(int error)
{
    static const int lasting[] = {214, 220, 226, 700, 702, 709, 710, 714, 715, 716,
                                  717, 718, 719, 721, 810, 911, 999};
    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++)
        if (lasting[i] == error)
            return true;
    return false;
}

/* Counts a pass of this place, and returns whether the fault strikes. Call with the lock held. */
static bool strikes(const char *at)
{
    if (strcmp(at, fault.at) != 0 || (fault.when[0] && access(fault.when, F_OK) != 0))
        return false;
    happened++;
    bool now = happened >= fault.nth && (fault.times == 0 || happened < fault.nth + fault.times);
    struck += now;
    return now;
}

/* Call with the lock held. */
static void break_device(int device, int error)
{
    if (cuda_fault_lasts(error) && !broken[device])
        broken[device] = (cudaError_t)error;
    pthread_cond_broadcast(&changed);
}

static cudaError_t say(cudaError_t result)
{
    if (result != cudaSuccess)
        last = result;
    return result;
}

/* The result of a call for this device before it does anything. */
static cudaError_t answer(const char *call, int device)
{
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&lock);
    count_call(call);
    if (strikes(call)) {
        int error = fault.error;
        break_device(device, error);
        pthread_mutex_unlock(&lock);
        return say((cudaError_t)error);
    }
    cudaError_t result = broken[device];
    pthread_mutex_unlock(&lock);
    return say(result);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t result = last;
    last = cudaSuccess;
    return result;
}

const char *cudaGetErrorName(cudaError_t error)
{
    static _Thread_local char name[32];
    snprintf(name, sizeof name, "cudaError %d", (int)error);
    return name;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "an error of the stand-in";
}

/* ---- devices and memory ---------------------------------------------------------------------- */

cudaError_t cudaDriverGetVersion(int *version)
{
    cudaError_t result = answer("cudaDriverGetVersion", 0);
    *version = result != cudaSuccess || fault.driver < 0 ? 0
               : fault.driver == 0                       ? 13000
                                                         : fault.driver;
    return result;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = RUNTIME_VERSION;
    return answer("cudaRuntimeGetVersion", 0);
}

/* Like CUDA, counts the devices of CUDA_VISIBLE_DEVICES up to the first that does not exist, and
 * one MIG instance at most. Device N is GPU-N, and MIG-0 and MIG-1 are instances. Other values of
 * the variable have no effect. */
static int visible_devices(void)
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    int count = 0, number, length;
    if (!at || (strncmp(at, "GPU-", 4) != 0 && strncmp(at, "MIG-", 4) != 0))
        return fault.devices;
    while (sscanf(at, "GPU-%d%n", &number, &length) == 1 && number < fault.devices) {
        count++;
        at += length + (at[length] == ',');
    }
    if (count == 0 && sscanf(at, "MIG-%d", &number) == 1 && number < 2)
        count = 1;
    return count;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t result = answer("cudaGetDeviceCount", 0);
    *count = result == cudaSuccess ? visible_devices() : 0;
    return result == cudaSuccess && *count == 0 ? say(cudaErrorNoDevice) : result;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = 1; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 8; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = 164 << 10;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 163 << 10; break;
    case cudaDevAttrAsyncEngineCount: *value = fault.copiers == 0 ? 2 : fault.copiers; break;
    default: return say(cudaErrorInvalidValue);
    }
    return answer("cudaDeviceGetAttribute", device);
}

cudaError_t cudaSetDevice(int device)
{
    current = device;
    return answer("cudaSetDevice", device);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return answer("cudaGetDevice", current);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "stand-in for CUDA");
    properties->multiProcessorCount = 1;
    return answer("cudaGetDeviceProperties", device);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = DEVICE_BYTES;
    return answer("cudaMemGetInfo", current);
}

struct cuda_given cuda_given(void)
{
    pthread_mutex_lock(&lock);
    struct cuda_given now = given;
    pthread_mutex_unlock(&lock);
    return now;
}

static cudaError_t take_memory(void **memory, size_t bytes, size_t *sum)
{
    *memory = aligned_alloc(BUFFER_ALIGN, (bytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN);
    if (!*memory)
        return say(cudaErrorMemoryAllocation);
    pthread_mutex_lock(&lock);
    *sum += bytes;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    cudaError_t result = answer("cudaMalloc", current);
    return result == cudaSuccess ? take_memory(memory, bytes, &given.device) : result;
}

/* The memory of a broken device is lost until the process ends. Each piece refers to the next one,
 * so a leak checker finds it. */
static void lose(void *memory)
{
    static void *lost;
    pthread_mutex_lock(&lock);
    *(void **)memory = lost;
    lost = memory;
    pthread_mutex_unlock(&lock);
}

cudaError_t cudaFree(void *memory)
{
    cudaError_t result = answer("cudaFree", current);
    if (result == cudaSuccess)
        free(memory);
    else if (memory && broken[current])
        lose(memory);
    return result;
}

/* Replaces one entry by another; NULL is a free entry. */
static bool note_pinned(const void *from, void *to)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < PINNED_MAX && !found; i++) {
        found = pinned[i] == from;
        if (found)
            pinned[i] = to;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    cudaError_t result = answer("cudaHostAlloc", current);
    if (result == cudaSuccess)
        result = take_memory(memory, bytes, &given.pinned);
    if (result == cudaSuccess && !note_pinned(NULL, *memory))
        abort();
    return result;
}

cudaError_t cudaFreeHost(void *memory)
{
    cudaError_t result = answer("cudaFreeHost", current);
    if (result == cudaSuccess && !note_pinned(memory, NULL))
        abort(); /* it was never pinned */
    if (result == cudaSuccess)
        free(memory);
    return result;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
    bool known = note_pinned(memory, (void *)memory);
    attributes->type = known ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    return answer("cudaPointerGetAttributes", current);
}

/* ---- execution of a stream ------------------------------------------------------------------- */

static void run_kernel(struct item *item, bool turn_a_bit)
{
    for (size_t i = 0; i < item->count; i++) {
        const struct pass_call *call = &item->launched[i].call;
        const struct pass *pass = &item->launched[i].pass;
        pass->type->cpu(pass, &call->from, &call->to, call->work);
        if (turn_a_bit && i == 0)
            *(pass->looks ? call->work : call->to.pixels) ^= 1;
    }
}

static void drop_item(struct item *item)
{
    free(item->launched);
    if (item->kind == CODEC)
        free(item->to); /* of a launch that did not run */
    free(item);
}

static void carry_out(struct item *item, bool turn_a_bit)
{
    switch (item->kind) {
    case COPY:
        memcpy(item->to, item->from, item->bytes);
        break;
    case FILL: memset(item->to, item->byte, item->bytes); break;
    case REPORT:
        item->call(item->to);
        break;
    case CODEC:
        item->call(item->to); /* frees it */
        item->to = NULL;
        break;
    case KERNEL:
        run_kernel(item, turn_a_bit);
        break;
    case RECORD:
        break;
    }
}

/* Waits while the test holds kernels. Call with the lock held; it is released while waiting. */
static void wait_while_held(const struct CUstream_st *stream)
{
    const struct timespec pause = {0, 2000000};
    while (!stream->closed && fault.hold[0] && access(fault.hold, F_OK) == 0) {
        pthread_mutex_unlock(&lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&lock);
    }
}

/* Returns false if the item did not finish; then the stream stops. Call with the lock held. */
static bool work_on(struct CUstream_st *stream, struct item *item)
{
    static const char *const places[] = {"copy", "fill", "record", "report", "kernel", "codec"};
    if (item->kind == KERNEL || item->kind == CODEC)
        wait_while_held(stream);
    bool strike = !broken[stream->device] && strikes(places[item->kind]);
    if (strike && !fault.bit) {
        break_device(stream->device, fault.error);
        if (fault.error == 0)
            return true;
        while (fault.error == cudaErrorNotReady && !stream->closed)
            pthread_cond_wait(&changed, &lock);
    }
    if (broken[stream->device] || (strike && fault.error == cudaErrorNotReady && !fault.bit))
        return false;
    if (item->kind == RECORD) {
        item->event->time_ns = clock_now_ns();
        item->event->taken = true;
        return true;
    }
    pthread_mutex_unlock(&lock);
    carry_out(item, strike);
    pthread_mutex_lock(&lock);
    return true;
}

static void drop_items(struct CUstream_st *stream)
{
    for (struct list_node *node; (node = list_pop(&stream->items));)
        drop_item(container_of(node, struct item, node));
}

static void *run_stream(void *argument)
{
    struct CUstream_st *stream = argument;
    pthread_mutex_lock(&lock);
    for (;;) {
        if (list_empty(&stream->items)) {
            if (stream->closed)
                break;
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        struct item *item = container_of(list_first(&stream->items), struct item, node);
        if (work_on(stream, item)) {
            list_remove(&stream->items, &item->node);
            drop_item(item);
        } else {
            drop_items(stream);
        }
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static cudaError_t put(struct CUstream_st *stream, const char *call, const struct item *wanted)
{
    cudaError_t result = answer(call, stream->device);
    struct item *item = result == cudaSuccess ? malloc(sizeof *item) : NULL;
    if (result != cudaSuccess)
        return result;
    if (!item)
        return say(cudaErrorMemoryAllocation);
    *item = *wanted;
    pthread_mutex_lock(&lock);
    if (!stream->has_thread && pthread_create(&stream->thread, NULL, run_stream, stream) != 0)
        abort();
    stream->has_thread = true;
    list_push(&stream->items, &item->node);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

int cuda_launch_many(const struct pass_call *calls, uint32_t count, struct CUstream_st *stream)
{
    struct launched *launched = calloc(count, sizeof *launched);
    struct item item = {.kind = KERNEL, .launched = launched, .count = count};
    for (uint32_t i = 0; launched && i < count; i++)
        launched[i] = (struct launched){.pass = *calls[i].pass, .call = calls[i]};
    cudaError_t result =
        launched ? put(stream, "launch", &item) : say(cudaErrorMemoryAllocation);
    if (result != cudaSuccess)
        free(launched);
    return (int)result;
}

int cuda_launch(const struct pass *pass, const struct image *from, const struct image *to,
                uint8_t *work, struct CUstream_st *stream)
{
    struct pass_call call = {.pass = pass, .from = *from, .to = *to, .work = work};
    return cuda_launch_many(&call, 1, stream);
}

/* A device with two priorities. They have no effect. */
cudaError_t cudaDeviceGetStreamPriorityRange(int *lowest, int *highest)
{
    *lowest = 0;
    *highest = -1;
    return answer("cudaDeviceGetStreamPriorityRange", current);
}

static cudaError_t create_stream(cudaStream_t *stream, const char *call)
{
    *stream = NULL;
    cudaError_t result = answer(call, current);
    if (result != cudaSuccess)
        return result;
    struct CUstream_st *made = calloc(1, sizeof *made);
    if (!made)
        return say(cudaErrorMemoryAllocation);
    made->device = current;
    list_init(&made->items);
    *stream = made;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    return create_stream(stream, "cudaStreamCreateWithFlags");
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)flags, (void)priority;
    return create_stream(stream, "cudaStreamCreateWithPriority");
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    pthread_mutex_lock(&lock);
    stream->closed = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (stream->has_thread)
        pthread_join(stream->thread, NULL);
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    cudaError_t result = answer("cudaStreamQuery", stream->device);
    if (result != cudaSuccess)
        return result;
    pthread_mutex_lock(&lock);
    bool idle = list_empty(&stream->items);
    pthread_mutex_unlock(&lock);
    return idle ? cudaSuccess : say(cudaErrorNotReady);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t result = answer("cudaStreamSynchronize", stream->device);
    pthread_mutex_lock(&lock);
    while (result == cudaSuccess && !list_empty(&stream->items))
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return result;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    struct item item = {.kind = COPY, .to = to, .from = from, .bytes = bytes};
    return put(stream, "cudaMemcpyAsync", &item);
}

/* Without a stream, at once. */
cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    struct item item = {.kind = FILL, .to = to, .byte = byte, .bytes = bytes};
    if (stream)
        return put(stream, "cudaMemsetAsync", &item);
    memset(to, byte, bytes);
    return answer("cudaMemsetAsync", current);
}

cudaError_t cuda_launch_codec(cudaStream_t stream, cudaHostFn_t call, void *argument)
{
    struct item item = {.kind = CODEC, .call = call, .to = argument};
    return put(stream, "codec launch", &item);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void *argument)
{
    struct item item = {.kind = REPORT, .call = call, .to = argument};
    return put(stream, "cudaLaunchHostFunc", &item);
}

/* ---- events ---------------------------------------------------------------------------------- */

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = NULL;
    cudaError_t result = answer("cudaEventCreate", current);
    if (result != cudaSuccess)
        return result;
    *event = calloc(1, sizeof **event);
    if (!*event)
        return say(cudaErrorMemoryAllocation);
    (*event)->device = current;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    struct item item = {.kind = RECORD, .event = event};
    pthread_mutex_lock(&lock);
    event->taken = false;
    pthread_mutex_unlock(&lock);
    return put(stream, "cudaEventRecord", &item);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    cudaError_t result = answer("cudaEventElapsedTime", to->device);
    pthread_mutex_lock(&lock);
    if (result == cudaSuccess && !(from->taken && to->taken))
        result = cudaErrorNotReady;
    if (result == cudaSuccess)
        *ms = (float)((double)(int64_t)(to->time_ns - from->time_ns) * 1e-6);
    pthread_mutex_unlock(&lock);
    return say(result);
}
