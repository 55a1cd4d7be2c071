/* equalize.cu - computes the table of equalize: one block with a thread per value. */
#include <cuda_runtime.h>

#include "gpu/ops/equalize.h"
#include "gpu/ops/launch.cuh"

/* ---- kernels ---- */

static __global__ void __launch_bounds__(HISTOGRAM_BINS)
    equalize_kernel(struct gray_table *work, uint32_t pixels)
{
    await_kernel_before();
    __shared__ uint32_t sums[2][HISTOGRAM_BINS];
    __shared__ int first;
    __shared__ uint32_t first_count;
    int i = threadIdx.x, side = 0;
    uint32_t count = work->counts[i];
    sums[0][i] = count;
    __syncthreads();
    for (int step = 1; step < HISTOGRAM_BINS; step *= 2) {
        sums[1 - side][i] = sums[side][i] + (i >= step ? sums[side][i - step] : 0);
        side = 1 - side;
        __syncthreads();
    }
    uint32_t sum = sums[side][i];
    if (count > 0 && sum == count) {
        first = i;
        first_count = count;
    }
    __syncthreads();
    if (first_count == pixels || i <= first)
        work->table[i] = first_count == pixels && i == first ? (uint8_t)i : 0;
    else
        work->table[i] = equalize_entry(sum - first_count, equalize_scale(pixels - first_count));
}

/* ---- launchers ---- */

static int equalize_make_cuda(struct gray_table *work, uint32_t pixels,
                              struct CUstream_st *stream)
{
    return launch_kernel(equalize_kernel, 1, HISTOGRAM_BINS, 0, stream, work, pixels);
}

PASS_LAUNCHER(equalize_cuda)
{
    return gray_table_run_cuda(pass, from, to, work, equalize_make_cuda, stream);
}
