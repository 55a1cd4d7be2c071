/*
 * gray_table.cu - count, compute a table, look up: three launches on one stream.
 *
 * Shared memory holds one copy of the table per bank, 8 KiB in all. The 32 reads of a warp
 * therefore never conflict.
 */
#include "gpu/ops/launch.cuh"
#include "gpu/ops/sweep.cuh"

#include "gpu/ops/gray_table.h"

/* ---- kernels ---- */

/* Each word of the table, with four entries, is repeated 32 times. Each lane reads its own copy. */
static __device__ __forceinline__ uint32_t look_up(const uint8_t *own, uint32_t value)
{
    return own[(value & 252u) * WARP + (value & 3u)];
}

static __device__ __forceinline__ uint32_t look_up_four(const uint8_t *own, uint32_t four)
{
    return look_up(own, four & 255u) | look_up(own, four >> 8 & 255u) << 8 |
           look_up(own, four >> 16 & 255u) << 16 | look_up(own, four >> 24) << 24;
}

/* `from` may be `to`: each lane overwrites only pixels that it has read. */
static __global__ void __launch_bounds__(SWEEP_THREADS)
    look_up_kernel(row_stretches a, const uint8_t *table)
{
    await_kernel_before();
    __shared__ uint32_t copies[HISTOGRAM_BINS / 4 * WARP];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int i = threadIdx.x; i < HISTOGRAM_BINS / 4 * WARP; i += SWEEP_THREADS)
        copies[i] = reinterpret_cast<const uint32_t *>(table)[i / WARP];
    __syncthreads();
    const uint8_t *own = reinterpret_cast<const uint8_t *>(copies + lane);
    for (int item = blockIdx.x * SWEEP_WARPS + warp; item < a.stretch_count;
         item += gridDim.x * SWEEP_WARPS) {
        int y = item / a.stretches, x0 = (item - y * a.stretches) * WARP_PIXELS;
        int x = x0 + lane * LANE_PIXELS;
        if (x >= a.width)
            continue;
        uint4 pixels = *reinterpret_cast<const uint4 *>(a.from + (size_t)y * a.from_stride + x);
        *reinterpret_cast<uint4 *>(a.to + (size_t)y * a.to_stride + x) =
            make_uint4(look_up_four(own, pixels.x), look_up_four(own, pixels.y),
                       look_up_four(own, pixels.z), look_up_four(own, pixels.w));
    }
}

/* ---- launchers ---- */

int gray_table_run_cuda(const struct pass *pass, const struct image *from, const struct image *to,
                        uint8_t *work, gray_table_make_cuda *make, struct CUstream_st *stream)
{
    struct gray_table *table = reinterpret_cast<struct gray_table *>(work);
    const struct histogram *histogram = reinterpret_cast<const struct histogram *>(pass->params);
    const struct image *gray = from->channels == 1 ? from : to;
    int result = histogram_count_cuda(from, histogram, to, table->counts, stream);
    if (result == cudaSuccess)
        result = make(table, from->width * from->height, stream);
    if (result != cudaSuccess)
        return result;
    row_stretches args = row_stretches_of<>(gray, to);
    return launch_kernel(look_up_kernel, sweep_blocks(args, SWEEP_WARPS, 4), SWEEP_THREADS, 0,
                         stream, args, table->table);
}
