/*
 * fault.h - injects faults into the stand-in CUDA runtime, one at a time: in a call, or when a
 * stream executes an item. A program sets the fault with cuda_fault_set; until then it is that of
 * $GPUIMGD_CUDA_FAULT, so that a daemon can be tested:
 *
 *     GPUIMGD_CUDA_FAULT="at=kernel,error=700,nth=3,when=/tmp/x/now"
 *
 *     at=PLACE      a call (cudaMemcpyAsync); launch (of a kernel); kernel, codec, copy, report (a
 *                   stream executes a kernel, one of the JPEG codec, a copy, a host function)
 *     error=N       the call returns this error; a kernel or copy breaks the device with it.
 *                   600 (not ready): the stream hangs forever. 0: the item is skipped without an
 *                   error, so a report never comes
 *     bit=1         instead of an error, the kernel flips one bit of its result
 *     nth=N         the first time that the fault strikes, from 1 (the default)
 *     times=N       the number of times in a row; default 1; 0: always
 *     when=FILE     the fault and its counters are active only while this file exists
 *     hold=FILE     in addition, kernels wait while this file exists
 *     devices=N     number of devices (1)
 *     copiers=N     number of copies that a device can run at the same time (2)
 *     driver=N      CUDA version of the driver, for example 12020 for 12.2 (13000); -1: no driver
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cuda_fault {
    char at[40]; /* "": none */
    int error;
    bool bit;
    unsigned nth, times;
    char when[128], hold[128];
    int devices, copiers, driver;
};

/* Replaces the fault, resets the counters, repairs the devices, and lets hanging streams
 * continue. */
void cuda_fault_set(const struct cuda_fault *fault);
/* How often the fault struck, and how often its place was reached. */
unsigned cuda_fault_struck(void);
unsigned cuda_fault_passed(void);
/* How often this call was made since cuda_fault_set; NULL: all calls. "launch" is the launch of a
 * pass, "codec launch" that of another kernel. */
unsigned cuda_calls(const char *name);
/* The bytes that cudaHostAlloc and cudaMalloc have given so far. */
struct cuda_given {
    size_t pinned, device;
};
struct cuda_given cuda_given(void);
/* Whether CUDA documents that after this error the process must be restarted. */
bool cuda_fault_lasts(int error);
