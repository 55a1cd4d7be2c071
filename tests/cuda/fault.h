/*
 * fault.h - what goes wrong in the stand-in for CUDA.
 *
 * One fault at a time: at a call, or where a stream carries something out. A program sets it by
 * cuda_fault_set; until then the stand-in has what $GPUIMGD_CUDA_FAULT says, so that a daemon can
 * be told:
 *
 *     GPUIMGD_CUDA_FAULT="at=kernel,error=700,nth=3,when=/tmp/x/now"
 *
 *     at=PLACE      a call (cudaMemcpyAsync); launch (of a kernel); kernel, copy, report (a stream
 *                   carries out a kernel, a copy, a call of the host)
 *     error=N       what comes of it: the call returns this error; a kernel or copy strikes the
 *                   device with it. 600 (not ready): the stream stands still there for ever.
 *                   0: nothing is done and nobody told, so a report never comes
 *     bit=1         instead: the kernel turns one bit of its result over
 *     nth=N         the first time that it happens, from 1 (which is the default)
 *     times=N       how often in a row; 1 is the default, 0 is for ever
 *     when=FILE     only while this file is there: before, nothing is counted
 *     hold=FILE     besides: kernels wait while this file is there
 *     devices=N     so many devices, not one
 *     copiers=N     copies that a device can carry out at once (2)
 *     driver=N      the CUDA version of the driver, as 12020 for 12.2 (13000); -1: none is there
 */
#pragma once

#include <stdbool.h>

struct cuda_fault {
    char at[32]; /* "": none */
    int error;
    bool bit;
    unsigned nth, times;
    char when[128], hold[128];
    int devices, copiers, driver;
};

/* Replaces the fault and counts anew. The devices become whole again, and streams that stood still
 * go on. */
void cuda_fault_set(const struct cuda_fault *fault);
/* How often it struck, and how often that place was come by at all. */
unsigned cuda_fault_struck(void);
unsigned cuda_fault_passed(void);
/* Whether CUDA says of this error that the process must be started anew. */
bool cuda_fault_lasts(int error);
