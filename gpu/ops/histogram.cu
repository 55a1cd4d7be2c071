/*
 * histogram.cu - counts in shared memory, several tables a block, so that few warps meet in one.
 *
 * A warp's atomics on one shared word are one step where each adds 1 (that is why nothing else is
 * added here): an image of one colour takes no longer than noise. The next stretch is on its way
 * while one is counted. A block adds each bin to the result once.
 */
#include "gpu/ops/sweep.cuh"

#include "gpu/ops/histogram.h"
#include "gpu/pass.h"

/* A block's tables of each plane; warps share them in turn. */
#define TABLES 4
#define BLOCKS_AN_SM 2

/* ---- kernels ---- */

static __device__ __forceinline__ void count_byte(uint32_t *table, uint32_t word, int i)
{
    atomicAdd(table + (word >> (8 * i) & 255u), 1u);
}

/* The first n bytes of a word; n may be anything. */
static __device__ __forceinline__ void count_some(uint32_t *table, uint32_t word, int n)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < n)
            count_byte(table, word, i);
}

static __device__ __forceinline__ void count_four(uint32_t *table, uint32_t word)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        count_byte(table, word, i);
}

template <int PLANES>
static __device__ __forceinline__ void clear_tables(uint32_t (*tables)[PLANES * HISTOGRAM_BINS])
{
    for (int i = threadIdx.x; i < TABLES * PLANES * HISTOGRAM_BINS; i += SWEEP_THREADS)
        tables[0][i] = 0;
    __syncthreads();
}

template <int PLANES>
static __device__ __forceinline__ void
add_to_result(const uint32_t (*tables)[PLANES * HISTOGRAM_BINS], uint32_t *counts)
{
    __syncthreads();
    for (int i = threadIdx.x; i < PLANES * HISTOGRAM_BINS; i += SWEEP_THREADS) {
        uint32_t sum = 0;
#pragma unroll
        for (int t = 0; t < TABLES; t++)
            sum += tables[t][i];
        if (sum)
            atomicAdd(&counts[i], sum);
    }
}

/* Where a stretch is. */
struct place {
    int y, x0;
};

static __device__ __forceinline__ place place_of(int item, int stretches)
{
    int y = item / stretches;
    return {y, (item - y * stretches) * WARP_PIXELS};
}

template <int C>
static __device__ __forceinline__ void load_item(row_part<C> *part, const uint8_t *from,
                                                 size_t from_stride, int width, int stretches,
                                                 int item, int lane)
{
    place at = place_of(item, stretches);
    row_load<C>(part, from + (size_t)at.y * from_stride, at.x0, width, lane);
}

/* One table. keep: where the gray goes, or NULL. */
template <int C>
static __global__ void __launch_bounds__(SWEEP_THREADS)
    histogram_gray_kernel(const uint8_t *from, size_t from_stride, uint8_t *keep,
                          size_t keep_stride, int width, int stretches, int stretch_count,
                          gray_words gray, uint32_t *counts)
{
    __shared__ uint32_t tables[TABLES][HISTOGRAM_BINS];
    __shared__ alignas(16) uint8_t stage[C == 3 ? SWEEP_WARPS : 1][C == 3 ? WARP_PIXELS * 3 : 16];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, step = gridDim.x * SWEEP_WARPS;
    int item = blockIdx.x * SWEEP_WARPS + warp;
    row_part<C> part, next;
    if (item < stretch_count)
        load_item<C>(&next, from, from_stride, width, stretches, item, lane);
    clear_tables<1>(tables);
    uint32_t *table = tables[warp % TABLES];
    for (; item < stretch_count; item += step) {
        part = next;
        if (item + step < stretch_count)
            load_item<C>(&next, from, from_stride, width, stretches, item + step, lane);
        place at = place_of(item, stretches);
        uint4 pixels = gray_lane<C>(&part, stage[C == 3 ? warp : 0], lane, gray);
        uint32_t words[4] = {pixels.x, pixels.y, pixels.z, pixels.w};
        uint8_t *row = keep + (size_t)at.y * keep_stride;
        if (C == 3 && keep && at.x0 + lane * LANE_PIXELS < width)
            *reinterpret_cast<uint4 *>(row + at.x0 + lane * LANE_PIXELS) = pixels;
#pragma unroll
        for (int m = 0; m < 4; m++) {
            int x = gray_word_x<C>(at.x0, lane, m);
            if (C == 4 && keep && x < width)
                *reinterpret_cast<uint32_t *>(row + x) = words[m];
            if (at.x0 + WARP_PIXELS <= width)
                count_four(table, words[m]);
            else
                count_some(table, words[m], width - x);
        }
    }
    add_to_result<1>(tables, counts);
}

/* The 16 bytes of piece j. Three channels: pieces begin 16 bytes apart, and 16 is 1 modulo 3, so
 * the channel of a byte follows from its place; planes[] begins with that of the lane's first. */
template <int C, bool WHOLE>
static __device__ __forceinline__ void count_piece(uint32_t *const *planes, const uint4 &piece,
                                                   int j, int left)
{
    uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
    for (int i = 0; i < 16; i++)
        if (WHOLE || i < left)
            count_byte(planes[C == 3 ? (j * 2 + i) % 3 : i % C], words[i / 4], i % 4);
}

/* A table a channel. */
template <int C>
static __global__ void __launch_bounds__(SWEEP_THREADS)
    histogram_colour_kernel(const uint8_t *from, size_t from_stride, int width, int stretches,
                            int stretch_count, uint32_t *counts)
{
    __shared__ uint32_t tables[TABLES][C * HISTOGRAM_BINS];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, step = gridDim.x * SWEEP_WARPS;
    int item = blockIdx.x * SWEEP_WARPS + warp;
    row_part<C> part, next;
    if (item < stretch_count)
        load_item<C>(&next, from, from_stride, width, stretches, item, lane);
    clear_tables<C>(tables);
    uint32_t *planes[C];
#pragma unroll
    for (int c = 0; c < C; c++)
        planes[c] = tables[warp % TABLES] + (C == 3 ? (lane + c) % 3 : c) * HISTOGRAM_BINS;
    for (; item < stretch_count; item += step) {
        part = next;
        if (item + step < stretch_count)
            load_item<C>(&next, from, from_stride, width, stretches, item + step, lane);
        int left = width - place_of(item, stretches).x0;
#pragma unroll
        for (int j = 0; j < C; j++) {
            if (left >= WARP_PIXELS)
                count_piece<C, true>(planes, part.words[j], j, 16);
            else
                count_piece<C, false>(planes, part.words[j], j, left * C - (lane + j * WARP) * 16);
        }
    }
    add_to_result<C>(tables, counts);
}

/* ---- launchers ---- */

static cudaError_t launch_gray(const struct image *from, const struct histogram *histogram,
                               const struct image *gray, uint32_t *counts, cudaStream_t stream)
{
    struct sweep sweep;
    cudaError_t result = sweep_of(from, BLOCKS_AN_SM, &sweep);
    if (result != cudaSuccess)
        return result;
    gray_words words = gray_words_of(&histogram->gray);
    uint8_t *keep = gray ? gray->pixels : NULL;
    size_t keep_stride = gray ? gray->stride : 0;
    int width = (int)from->width;
    if (from->channels == 1)
        histogram_gray_kernel<1><<<sweep.blocks, SWEEP_THREADS, 0, stream>>>(
            from->pixels, from->stride, NULL, 0, width, sweep.stretches, sweep.count, words,
            counts);
    else if (from->channels == 3)
        histogram_gray_kernel<3><<<sweep.blocks, SWEEP_THREADS, 0, stream>>>(
            from->pixels, from->stride, keep, keep_stride, width, sweep.stretches, sweep.count,
            words, counts);
    else
        histogram_gray_kernel<4><<<sweep.blocks, SWEEP_THREADS, 0, stream>>>(
            from->pixels, from->stride, keep, keep_stride, width, sweep.stretches, sweep.count,
            words, counts);
    return cudaGetLastError();
}

static cudaError_t launch_colour(const struct image *from, uint32_t *counts, cudaStream_t stream)
{
    struct sweep sweep;
    cudaError_t result = sweep_of(from, BLOCKS_AN_SM, &sweep);
    if (result != cudaSuccess)
        return result;
    if (from->channels == 3)
        histogram_colour_kernel<3><<<sweep.blocks, SWEEP_THREADS, 0, stream>>>(
            from->pixels, from->stride, (int)from->width, sweep.stretches, sweep.count, counts);
    else
        histogram_colour_kernel<4><<<sweep.blocks, SWEEP_THREADS, 0, stream>>>(
            from->pixels, from->stride, (int)from->width, sweep.stretches, sweep.count, counts);
    return cudaGetLastError();
}

extern "C" int histogram_count_cuda(const struct image *from, const struct histogram *histogram,
                                    const struct image *gray, uint32_t *counts,
                                    struct CUstream_st *stream)
{
    uint32_t planes = histogram_planes(histogram, from->channels);
    cudaError_t result =
        cudaMemsetAsync(counts, 0, planes * HISTOGRAM_BINS * sizeof(*counts), stream);
    if (result != cudaSuccess)
        return result;
    return planes == 1 ? launch_gray(from, histogram, gray, counts, stream)
                       : launch_colour(from, counts, stream);
}

extern "C" int histogram_cuda(const struct pass *pass, const struct image *from,
                              const struct image *to, uint8_t *work, struct CUstream_st *stream)
{
    (void)to;
    return histogram_count_cuda(from, reinterpret_cast<const struct histogram *>(pass->params),
                                NULL, reinterpret_cast<uint32_t *>(work), stream);
}
