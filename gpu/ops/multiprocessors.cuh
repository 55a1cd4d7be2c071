/* multiprocessors.cuh - how many the current device has, for grids that fill it once. */
#ifndef GPUIMGD_GPU_OPS_MULTIPROCESSORS_CUH
#define GPUIMGD_GPU_OPS_MULTIPROCESSORS_CUH

#include <cuda_runtime.h>

/* 1 where the device does not say; its launches will. */
static inline int multiprocessors()
{
    int device = 0, count = 1;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return 1;
    return count;
}

#endif
