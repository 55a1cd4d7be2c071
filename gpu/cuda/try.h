/*
 * try.h - checking CUDA calls: log, clear, return; nothing exits.
 *
 * CUDA_TRY(call) is the call's cudaError_t; where that is an error it has been logged with the
 * call's text and taken off the thread's last-error slot. What it means is for the caller to say:
 * cuda_is_sticky tells errors that end the context from those that concern one call.
 */
#ifndef GPUIMGD_GPU_CUDA_TRY_H
#define GPUIMGD_GPU_CUDA_TRY_H

#include <cuda_runtime.h>

#include "conf/log.h"

static inline cudaError_t cuda_try(cudaError_t result, const char *call)
{
    if (result == cudaSuccess)
        return result;
    log_error("%s: %s (%s)", call, cudaGetErrorString(result), cudaGetErrorName(result));
    (void)cudaGetLastError();
    return result;
}

#define CUDA_TRY(call) cuda_try((call), #call)

/* cudaStreamQuery, after which a stream that is still at work is not taken for the next call's
 * error: cudaErrorNotReady stays in the last-error slot, where launches look for theirs. */
static inline cudaError_t cuda_query(cudaStream_t stream)
{
    cudaError_t result = cudaStreamQuery(stream);
    if (result != cudaSuccess)
        (void)cudaGetLastError();
    return result;
}

/* Errors after which the context answers every call with an error until the process ends. Those
 * that not every toolkit has a name for are numbers. */
static inline bool cuda_is_sticky(cudaError_t result)
{
    switch ((int)result) {
    case cudaErrorECCUncorrectable:    /* 214 */
    case cudaErrorNvlinkUncorrectable: /* 220 */
    case 226:                          /* cudaErrorContained */
    case cudaErrorIllegalAddress:      /* 700 */
    case cudaErrorLaunchTimeout:       /* 702 */
    case cudaErrorContextIsDestroyed:  /* 709 */
    case cudaErrorAssert:              /* 710 */
    case cudaErrorHardwareStackError:  /* 714 */
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure: /* 719 */
    case 721:                    /* cudaErrorTensorMemoryLeak */
    case 810:                    /* cudaErrorMpsClientTerminated */
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
        return true;
    default:
        return false;
    }
}

#endif
