/*
 * histogram.cu - counts in shared memory, a copy of the table a lane.
 *
 * The copies of a bin lie side by side, so that lane l touches bank l alone: a warp's 32 atomics
 * meet neither in a bank nor in a word, on noise and on a single colour alike. Bins i and i + 128
 * are the halves of one word, which makes 16 KiB a channel. A block adds each bin to the result
 * once.
 */
#include "gpu/ops/sweep.cuh"

#include "gpu/ops/histogram.h"
#include "gpu/pass.h"

/* A half overflows after 65,535 pixels of one value; COPIES lanes' worth of threads share it. */
template <int COPIES> struct counter {
    static constexpr int rounds_max = 65535 / (SWEEP_THREADS / COPIES * LANE_PIXELS);
};

/* ---- kernels ---- */

template <int COPIES>
static __device__ __forceinline__ void count_byte(uint32_t *copy, uint32_t word, int i)
{
    uint32_t value = word >> (8 * i) & 255u;
    atomicAdd(copy + (value & 127u) * COPIES, 1u << (value >> 3 & 16u));
}

/* The first n bytes of a word; n may be anything. */
template <int COPIES>
static __device__ __forceinline__ void count_word(uint32_t *copy, uint32_t word, int n)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < n)
            count_byte<COPIES>(copy, word, i);
}

/* Each thread adds up one bin of one plane; neighbours begin at different banks. */
template <int PLANES, int COPIES>
static __device__ __forceinline__ void add_to_result(const uint32_t (*table)[128 * COPIES],
                                                     uint32_t *counts)
{
    for (int i = threadIdx.x; i < PLANES * HISTOGRAM_BINS; i += SWEEP_THREADS) {
        int plane = i / HISTOGRAM_BINS, bin = i % HISTOGRAM_BINS, shift = bin / 128 * 16;
        const uint32_t *row = table[plane] + bin % 128 * COPIES;
        uint32_t sum = 0;
#pragma unroll
        for (int k = 0; k < COPIES; k++)
            sum += row[(k + bin) % COPIES] >> shift & 0xffffu;
        if (sum)
            atomicAdd(&counts[i], sum);
    }
}

/* One table. keep: gray of `to_stride`, or NULL. */
template <int C>
static __global__ void __launch_bounds__(SWEEP_THREADS)
    histogram_gray_kernel(const uint8_t *from, size_t from_stride, uint8_t *keep,
                          size_t keep_stride, int width, int stretches, int stretch_count,
                          gray_words gray, uint32_t *counts)
{
    __shared__ uint32_t table[1][128 * WARP];
    __shared__ alignas(16) uint8_t stage[C == 3 ? SWEEP_WARPS : 1][C == 3 ? WARP_PIXELS * 3 : 16];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int i = threadIdx.x; i < 128 * WARP; i += SWEEP_THREADS)
        table[0][i] = 0;
    __syncthreads();
    uint32_t *copy = table[0] + lane;
    for (int item = blockIdx.x * SWEEP_WARPS + warp; item < stretch_count;
         item += gridDim.x * SWEEP_WARPS) {
        int y = item / stretches, x0 = (item - y * stretches) * WARP_PIXELS;
        row_part<C> part;
        row_load<C>(&part, from + (size_t)y * from_stride, x0, width, lane);
        uint4 pixels = gray_lane<C>(&part, stage[C == 3 ? warp : 0], lane, gray);
        uint32_t words[4] = {pixels.x, pixels.y, pixels.z, pixels.w};
        uint8_t *row = keep + (size_t)y * keep_stride;
        if (C == 3 && keep && x0 + lane * LANE_PIXELS < width)
            *reinterpret_cast<uint4 *>(row + x0 + lane * LANE_PIXELS) = pixels;
#pragma unroll
        for (int m = 0; m < 4; m++) {
            int x = gray_word_x<C>(x0, lane, m);
            if (C == 4 && keep && x < width)
                *reinterpret_cast<uint32_t *>(row + x) = words[m];
            count_word<WARP>(copy, words[m], width - x);
        }
    }
    __syncthreads();
    add_to_result<1, WARP>(table, counts);
}

/* A table a channel. The channel of a byte follows from its place in the row: pieces begin 16
 * bytes apart, and 16 is 1 modulo 3. Four channels would not fit with a copy a lane: two share. */
template <int C>
static __global__ void __launch_bounds__(SWEEP_THREADS)
    histogram_colour_kernel(const uint8_t *from, size_t from_stride, int width, int stretches,
                            int stretch_count, uint32_t *counts)
{
    constexpr int COPIES = C == 3 ? WARP : WARP / 2;
    __shared__ uint32_t table[C][128 * COPIES];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int i = threadIdx.x; i < C * 128 * COPIES; i += SWEEP_THREADS)
        table[i / (128 * COPIES)][i % (128 * COPIES)] = 0;
    __syncthreads();
    uint32_t *copies[C];
#pragma unroll
    for (int c = 0; c < C; c++)
        copies[c] = table[C == 3 ? (lane + c) % 3 : c] + lane % COPIES;
    for (int item = blockIdx.x * SWEEP_WARPS + warp; item < stretch_count;
         item += gridDim.x * SWEEP_WARPS) {
        int y = item / stretches, x0 = (item - y * stretches) * WARP_PIXELS;
        row_part<C> part;
        row_load<C>(&part, from + (size_t)y * from_stride, x0, width, lane);
#pragma unroll
        for (int j = 0; j < C; j++) {
            uint32_t words[4] = {part.words[j].x, part.words[j].y, part.words[j].z,
                                 part.words[j].w};
            int left = (width - x0) * C - (lane + j * WARP) * 16;
#pragma unroll
            for (int i = 0; i < 16; i++)
                if (i < left)
                    count_byte<COPIES>(copies[C == 3 ? (j * 2 + i) % 3 : i % C], words[i / 4],
                                       i % 4);
        }
    }
    __syncthreads();
    add_to_result<C, COPIES>(table, counts);
}

/* ---- launchers ---- */

static cudaError_t launch_gray(const struct image *from, const struct histogram *histogram,
                               const struct image *gray, uint32_t *counts, cudaStream_t stream)
{
    struct sweep sweep;
    cudaError_t result = sweep_of(from, 3, counter<WARP>::rounds_max, &sweep);
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
    int rounds_max = from->channels == 3 ? counter<WARP>::rounds_max : counter<WARP / 2>::rounds_max;
    cudaError_t result = sweep_of(from, 3, rounds_max, &sweep);
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
