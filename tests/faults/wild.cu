/* wild.cu - a kernel that writes to an illegal address, on a separate stream. */
#include <stdint.h>

#include <cuda_runtime.h>

static __global__ void wild_kernel(volatile int *nowhere)
{
    *nowhere = 1;
}

extern "C" bool wild_start(void)
{
    cudaStream_t stream;
    if (cudaSetDevice(0) != cudaSuccess ||
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        return false;
    wild_kernel<<<1, 1, 0, stream>>>((volatile int *)(uintptr_t)16);
    return cudaGetLastError() == cudaSuccess;
}
