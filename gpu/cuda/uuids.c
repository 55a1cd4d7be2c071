/*
 * uuids.c - selects devices by UUID, for the option `devices`.
 *
 * The UUIDs are put into the environment variable CUDA_VISIBLE_DEVICES. CUDA then shows the process
 * only the listed GPUs and MIG instances, numbered in the order of the list. CUDA has no other way
 * to select a MIG instance.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/device.h"

bool cuda_uuids_given(const char *devices)
{
    return devices && (strncmp(devices, "GPU-", 4) == 0 || strncmp(devices, "MIG-", 4) == 0);
}

/* Drivers before 470 give MIG instances names of the form "MIG-GPU-UUID/1/0". */
static bool is_uuid(const char *at, size_t length)
{
    static const char allowed[] = "0123456789abcdefABCDEF-/GPU";
    return length > 4 && cuda_uuids_given(at) && strspn(at + 4, allowed) >= length - 4;
}

/* Whether the list has the entry `at` before `end`. */
static bool is_listed(const char *list, const char *end, const char *at, size_t length)
{
    for (const char *one = list; one < end; one += strcspn(one, ",") + 1)
        if (strcspn(one, ",") == length && strncmp(one, at, length) == 0)
            return true;
    return false;
}

/* Returns the number of UUIDs; 0: the list is invalid, or names a device twice. */
static uint32_t count_uuids(const char *list)
{
    uint32_t count = 0;
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        if (!is_uuid(at, length) || is_listed(list, at, at, length) || ++count > DEVICES_MAX)
            return 0;
        at += length;
        if (*at == '\0')
            return count;
    }
}

uint32_t cuda_uuids_select(const char *devices, struct error *error)
{
    uint32_t count = count_uuids(devices);
    if (count == 0)
        error_set(error, STATUS_GPU_FAILED,
                  "devices is \"%.100s\"; it must be all, at most %d different numbers, or as many "
                  "UUIDs that begin with GPU- or MIG-, separated by commas", devices, DEVICES_MAX);
    else if (setenv("CUDA_VISIBLE_DEVICES", devices, 1) != 0) /* uncovered: memory */
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the option devices");
    return error->status == STATUS_OK ? count : 0;
}
