/*
 * launch.cuh - how kernels are launched, so that one's start overlaps the end of the one before it.
 *
 * From compute capability 9.0 on, a kernel in a stream may begin while the last blocks of the one
 * before it still work (programmatic dependent launch): its blocks take what room there is, wait
 * until all that was written before them can be seen, and go on at once. Alone on a stream that
 * takes 1 to 1.5 of the 3 us away that a kernel's start and end cost otherwise.
 */
#ifndef GPUIMGD_GPU_OPS_LAUNCH_CUH
#define GPUIMGD_GPU_OPS_LAUNCH_CUH

#include <cuda_runtime.h>

#define EARLY_START_ARCH 900

/* The first thing that every kernel does, before it touches global memory. Only behind the wait are
 * the blocks of the next kernel let in: all that came before this kernel has ended by then, so no
 * block begins while one of two kernels ago may still read what it will read itself. */
static __device__ __forceinline__ void await_kernel_before()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= EARLY_START_ARCH
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Whether the code that the current device runs has that wait: the device takes the latest of the
 * architectures compiled for that it can run, as it is or from its PTX. */
static inline bool starts_early()
{
    static const int compiled[] = {__CUDA_ARCH_LIST__};
    int device = 0, major = 0, minor = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
        return false;
    for (int arch : compiled)
        if (arch >= EARLY_START_ARCH && arch <= major * 100 + minor * 10)
            return true;
    return false;
}

/* Launches a kernel that begins with await_kernel_before; `shared` bytes are dynamic. What fails is
 * returned, and not left for cudaGetLastError too. */
template <typename... P, typename... A>
static cudaError_t launch_kernel(void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared,
                                 cudaStream_t stream, const A &...args)
{
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = starts_early() ? 1 : 0;
    cudaError_t status = cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
    return status == cudaSuccess ? status : cudaGetLastError();
}

#endif
