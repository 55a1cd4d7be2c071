/*
 * service.c - takes devices out of service, and back.
 *
 * Any thread may change a device's state. The device's own thread then fails the tasks that the
 * device has.
 */
#include "gpu/cuda/device.h"

#include <stdio.h>

#include "gpu/cuda/try.h"

static uint32_t count_in_service(const struct cuda_engine *cuda)
{
    uint32_t count = 0;
    for (uint32_t d = 0; d < cuda->base.device_count; d++)
        count += cuda_device_state(&cuda->devices[d]) == DEVICE_IN_SERVICE;
    return count;
}

static bool may_move(enum engine_device_state from, enum engine_device_state to)
{
    return from != DEVICE_FAILED && from != to;
}

/* Changes the state. If the device leaves service, tells its thread. Under the engine's lock. */
static void set_state(struct cuda_device *device, enum engine_device_state to, bool struck,
                      const char *why)
{
    atomic_store(&device->base.state, to);
    if (to == DEVICE_IN_SERVICE)
        return;
    device->struck = struck;
    device->why = (struct error){0};
    error_set(&device->why, STATUS_GPU_FAILED, "%s", why);
    pthread_mutex_lock(&device->lock);
    device->left_service = true;
    pthread_cond_signal(&device->wake);
    pthread_mutex_unlock(&device->lock);
}

/* Sets the engine's fault, because no device is in service. Devices that are out of service fail:
 * no check can bring them back after a fault. Under the engine's lock. */
static void fail_engine(struct cuda_engine *cuda, const char *why)
{
    error_set(&cuda->base.fault, STATUS_GPU_FAILED, "%s", why);
    atomic_store(&cuda->base.failed, true);
    for (uint32_t d = 0; d < cuda->base.device_count; d++)
        if (cuda_device_state(&cuda->devices[d]) == DEVICE_OUT)
            set_state(&cuda->devices[d], DEVICE_FAILED, false, why);
    if (cuda->failed)
        cuda->failed(cuda->context);
}

void cuda_device_move(struct cuda_device *device, enum engine_device_state to, bool struck,
                      const char *why)
{
    struct cuda_engine *cuda = device->engine;
    pthread_mutex_lock(&cuda->lock);
    if (may_move(cuda_device_state(device), to)) {
        set_state(device, to, struck, why);
        uint32_t left = count_in_service(cuda);
        if (to == DEVICE_IN_SERVICE)
            log_info("%s is in service again", device->base.name);
        else if (left > 0)
            log_error("%s; %s is out of service%s, and %u other%s", why, device->base.name,
                      to == DEVICE_FAILED ? " until the daemon is restarted" : "", left,
                      left == 1 ? " continues" : "s continue");
        else
            log_error("%s", why);
        if (left == 0 && !atomic_load(&cuda->base.failed))
            fail_engine(cuda, why);
    }
    pthread_mutex_unlock(&cuda->lock);
}

void cuda_device_fail(struct cuda_device *device, const char *what, cudaError_t result)
{
    char why[ERROR_TEXT_MAX];
    if (result == cudaSuccess)
        snprintf(why, sizeof why, "%s: %s", device->base.name, what);
    else
        snprintf(why, sizeof why, "%s: %s: %s (%s)", device->base.name, what,
                 cudaGetErrorString(result), cudaGetErrorName(result));
    cuda_device_move(device, DEVICE_FAILED, true, why);
}

static bool reports_error(const struct cuda_device *device)
{
    for (uint32_t s = 0; s < cuda_slot_count(device); s++) {
        cudaError_t result = cuda_query(device->slots[s].stream);
        if (result != cudaSuccess && result != cudaErrorNotReady)
            return true;
    }
    return false;
}

void cuda_note_error(struct cuda_device *device, const char *what, cudaError_t result)
{
    struct cuda_engine *cuda = device->engine;
    bool found = false;
    if (!cuda_is_sticky(result))
        return;
    for (uint32_t d = 0; d < cuda->base.device_count; d++) {
        struct cuda_device *other = &cuda->devices[d];
        if (cuda_device_state(other) == DEVICE_FAILED || !reports_error(other))
            continue;
        cuda_device_fail(other, what, result);
        found = true;
    }
    if (!found)
        cuda_device_fail(device, what, result);
}
