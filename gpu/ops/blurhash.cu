/*
 * blurhash.cu - computes the sums of a BlurHash (blurhash.h), with a warp per span of a row.
 *
 * Each lane adds up every 32nd pixel of the span: its colours, and their products with the cosines
 * of all components across. The warp adds up the lanes' sums by shuffles. Then each lane multiplies
 * the span's sums by the cosine of one component down, and adds the results to the block's sums in
 * shared memory. All sums are integers, so their order does not matter.
 */
#include "gpu/ops/blurhash.h"
#include "gpu/ops/launch.cuh"

#define WARP 32
#define WARPS 8
#define BLOCKS 4 /* per multiprocessor */
#define ALL 0xFFFFFFFFu

struct blurhash_args : pass_images {
    struct blurhash own;
    const int32_t *tables;
    unsigned long long *sums;
};

template <int C> SIMT void load_pixel(int32_t *linear, const uint8_t *pixel, const int32_t *table,
                                      const struct flatten &under)
{
    unrolled_for (int c = 0; c < (C == 1 ? 1 : 3); c++)
        linear[c] = table[C == 4 ? flatten_byte(pixel[c], pixel[C - 1], under.background[c])
                                 : pixel[c]];
}

SIMT int64_t warp_sum(int64_t sum)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(ALL, sum, step);
    return sum;
}

/* The grid has a column of blocks per span. A block processes WARPS rows, then the WARPS rows
 * gridDim.y blocks further down, and so on. */
template <int C>
static __global__ void __launch_bounds__(WARPS *WARP)
    blurhash_kernel(const __grid_constant__ blurhash_args a)
{
    await_kernel_before();
    constexpr int planes = C == 1 ? 1 : 3;
    __shared__ unsigned long long sums[BLURHASH_SUMS_MAX];
    __shared__ int32_t table[BLURHASH_COLOURS];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int across = a.own.across, down = a.own.down;
    int start = blockIdx.x * BLURHASH_SPAN, end = min(start + BLURHASH_SPAN, a.width);
    const int32_t *columns = a.tables + BLURHASH_COLOURS;
    const int32_t *rows = columns + (size_t)across * a.width;
    for (int i = threadIdx.x; i < across * down * planes; i += WARPS * WARP)
        sums[i] = 0;
    for (int i = threadIdx.x; i < BLURHASH_COLOURS; i += WARPS * WARP)
        table[i] = a.tables[i];
    __syncthreads();
    for (int y = blockIdx.y * WARPS + warp; y < a.height; y += gridDim.y * WARPS) {
        const uint8_t *row = a.from + (size_t)y * a.from_stride;
        int64_t own[BLURHASH_SIDE_MAX][planes] = {}, total[planes] = {};
        for (int x = start + lane; x < end; x += WARP) {
            int32_t linear[planes];
            load_pixel<C>(linear, row + (size_t)x * C, table, a.own.under);
            unrolled_for (int c = 0; c < planes; c++) {
                total[c] += linear[c];
                linear[c] = blurhash_short(linear[c]);
            }
            unrolled_for (int i = 0; i < BLURHASH_SIDE_MAX; i++) {
                int32_t cosine = i < across ? columns[(size_t)i * a.width + x] : 0;
                unrolled_for (int c = 0; c < planes; c++)
                    own[i][c] += (int64_t)linear[c] * cosine;
            }
        }
        int32_t cosine = lane < down ? rows[(size_t)lane * a.height + y] : 0;
        unrolled_for (int i = 0; i < BLURHASH_SIDE_MAX; i++) {
            if (i >= across)
                continue; /* all lanes skip it, so that the shuffles are complete */
            unrolled_for (int c = 0; c < planes; c++) {
                int64_t sum = warp_sum(own[i][c]);
                int64_t part = blurhash_weigh(blurhash_narrow(sum), cosine);
                if (i == 0) {
                    int64_t mean = warp_sum(total[c]);
                    part = lane == 0 ? mean : part;
                }
                if (lane < down)
                    atomicAdd(&sums[(lane * across + i) * planes + c], (unsigned long long)part);
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < across * down * planes; i += WARPS * WARP)
        atomicAdd(&a.sums[i], sums[i]);
}

PASS_LAUNCHER(blurhash_cuda)
{
    blurhash_args args = pass_args<blurhash_args>(from, from);
    args.own = *reinterpret_cast<const struct blurhash *>(pass->params);
    args.tables = reinterpret_cast<const int32_t *>(pass->constants);
    args.sums = reinterpret_cast<unsigned long long *>(work);
    cudaError_t error = cudaMemsetAsync(work, 0, pass->work_bytes, stream);
    if (error != cudaSuccess)
        return error;
    unsigned spans = (from->width + BLURHASH_SPAN - 1) / BLURHASH_SPAN;
    unsigned groups = (from->height + WARPS - 1) / WARPS;
    unsigned most = (unsigned)multiprocessors() * BLOCKS / spans + 1;
    dim3 grid(spans, groups < most ? groups : most);
    return by_channels(from->channels, [&](auto c) {
        return launch_kernel(blurhash_kernel<c>, grid, WARPS * WARP, 0, stream, args);
    });
}
