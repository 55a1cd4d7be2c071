/* multiprocessors.cuh - the number of multiprocessors, for grids that fill the current device
 * once. */
#ifndef GPUIMGD_GPU_OPS_MULTIPROCESSORS_CUH
#define GPUIMGD_GPU_OPS_MULTIPROCESSORS_CUH

#include <cuda_runtime.h>

/* Returns 1 if the query fails; the launch will then report the error. */
static inline int multiprocessors()
{
    int device = 0, count = 1;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return 1;
    return count;
}

#endif
