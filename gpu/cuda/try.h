/*
 * try.h - checks CUDA calls: logs the error, clears it and returns it.
 *
 * CUDA_TRY(call) evaluates to the call's cudaError_t. An error is logged with the source text of
 * the call. It is also cleared from the state that cudaGetLastError returns, because a later kernel
 * launch would report it again. The caller handles the error.
 */
#pragma once

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

/* cudaStreamQuery without its side effect: cudaErrorNotReady would stay in the last-error state,
 * and the next kernel launch would report it as its own. */
static inline cudaError_t cuda_query(cudaStream_t stream)
{
    cudaError_t result = cudaStreamQuery(stream);
    if (result != cudaSuccess)
        (void)cudaGetLastError();
    return result;
}

/* Whether an error is sticky: it ends the CUDA context, so that every later call fails until the
 * process exits. Errors for which some CUDA toolkits have no name are given as numbers. */
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
