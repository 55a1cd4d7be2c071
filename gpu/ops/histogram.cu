/*
 * histogram.cu - counts pixel values in shared memory; each block adds each bin to the result
 * once.
 *
 * Gray has one table per block. Blocks are as large as possible, because each block must clear its
 * table and add it to the result. The atomic instruction that adds a constant 1 merges lanes with
 * equal addresses and takes longer the more different addresses there are. Lanes therefore count
 * neighbouring words, whose pixels are similar in photographs.
 *
 * Colour has one table per channel, in several interleaved copies: bin b of copy k is word b *
 * copies + k, and lane l uses copy l % copies. Colour needs three times as many atomics per byte
 * read. An atomic that adds a register is faster if few lanes collide; with an image of one
 * colour, only two or four lanes collide. `one` is therefore an argument and not a constant.
 *
 * The next stretch is loaded while the current one is counted.
 */
#include "gpu/ops/histogram.h"
#include "gpu/ops/rows.cuh"

/* Gray: warps per block, by the image's channels, and blocks per multiprocessor. */
#define GRAY_WARPS(channels) ((channels) == 1 ? 32 : 16)
#define GRAY_BLOCKS 2
/* One table per channel. */
#define COLOUR_BLOCKS 2
#define COPIES(channels) ((channels) == 3 ? 16 : 8)

/* The first pixel of the four in word m (0..3) of a lane's gray. With RGB a lane has sixteen
 * adjacent pixels, otherwise four groups of four. */
template <int C> SIMT int gray_place(int x0, int lane, int m)
{
    return C == 3 ? x0 + lane * LANE_PIXELS + m * 4 : x0 + (lane + m * WARP) * 4;
}

/* The counter of byte i of a word, in a table whose bins are STEP bytes apart: one __dp4a. */
template <unsigned STEP> SIMT uint32_t *bin_of(uint32_t *table, uint32_t word, int i)
{
    return reinterpret_cast<uint32_t *>(reinterpret_cast<uint8_t *>(table) +
                                        __dp4a(word, STEP << (8 * i), 0u));
}

/* Counts the first n bytes of a word. n may be any integer. */
SIMT void count_gray(uint32_t *table, uint32_t word, int n)
{
    unrolled_for (int i = 0; i < 4; i++)
        if (i < n)
            atomicAdd(bin_of<4>(table, word, i), 1u);
}

/* A stretch in flight. Of a gray image, lanes load neighbouring words, four times. */
template <int C> struct gray_part {
    row_part<C> part;
};

template <> struct gray_part<1> {
    uint32_t words[4];
};

template <int C>
SIMT void gray_load(gray_part<C> *held, const uint8_t *row, int x0, int width, int lane)
{
    if constexpr (C == 1) {
        unrolled_for (int m = 0; m < 4; m++)
            held->words[m] = row_get<uint32_t>(row, gray_place<1>(x0, lane, m), width);
    } else {
        row_load<C>(&held->part, row, x0, width, lane);
    }
}

template <int C>
SIMT void gray_of(uint32_t *words, gray_part<C> *held, uint8_t *stage, int lane,
                  const gray_words &gray)
{
    if constexpr (C == 1) {
        unrolled_for (int m = 0; m < 4; m++)
            words[m] = held->words[m];
    } else {
        uint4 pixels = gray_lane<C>(&held->part, stage, lane, gray);
        words[0] = pixels.x, words[1] = pixels.y, words[2] = pixels.z, words[3] = pixels.w;
    }
}

/* Stores a lane's sixteen gray pixels in the row of the result. */
template <int C>
SIMT void keep_gray(uint8_t *row, const uint32_t *words, int x0, int lane, int width)
{
    if constexpr (C == 3) {
        row_put(row, x0 + lane * LANE_PIXELS, width,
                make_uint4(words[0], words[1], words[2], words[3]));
    } else {
        unrolled_for (int m = 0; m < 4; m++)
            row_put(row, gray_place<C>(x0, lane, m), width, words[m]);
    }
}

/* a.to: destination of the gray, or NULL. */
template <int C>
static __global__ void __launch_bounds__(GRAY_WARPS(C) * WARP)
    histogram_gray_kernel(row_stretches a, gray_words gray, uint32_t *counts)
{
    await_kernel_before();
    constexpr int warps = GRAY_WARPS(C);
    __shared__ uint32_t table[HISTOGRAM_BINS];
    __shared__ alignas(16) uint8_t stage[C == 3 ? warps : 1][C == 3 ? WARP_PIXELS * 3 : 16];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, step = gridDim.x * warps;
    int item = blockIdx.x * warps + warp;
    sweep_place at = sweep_begin(item, step, a.stretches);
    gray_part<C> held, next;
    if (item < a.stretch_count)
        gray_load<C>(&next, a.from + (size_t)at.y * a.from_stride, at.x0, a.width, lane);
    if (threadIdx.x < HISTOGRAM_BINS)
        table[threadIdx.x] = 0;
    __syncthreads();
    for (; item < a.stretch_count; item += step) {
        int y = at.y, x0 = at.x0;
        held = next;
        sweep_next(&at);
        if (item + step < a.stretch_count)
            gray_load<C>(&next, a.from + (size_t)at.y * a.from_stride, at.x0, a.width, lane);
        uint32_t words[4];
        gray_of<C>(words, &held, stage[C == 3 ? warp : 0], lane, gray);
        if (C != 1 && a.to)
            keep_gray<C>(a.to + (size_t)y * a.to_stride, words, x0, lane, a.width);
        if (x0 + WARP_PIXELS <= a.width) {
            unrolled_for (int m = 0; m < 4; m++)
                count_gray(table, words[m], 4);
        } else {
            unrolled_for (int m = 0; m < 4; m++)
                count_gray(table, words[m], a.width - gray_place<C>(x0, lane, m));
        }
    }
    __syncthreads();
    if (threadIdx.x < HISTOGRAM_BINS && table[threadIdx.x])
        atomicAdd(&counts[threadIdx.x], table[threadIdx.x]);
}

/* Counts the 16 bytes of piece j. With three channels, pieces are 16 bytes apart and 16 is 1 modulo
 * 3, so the channel of a byte follows from its position. planes[] starts with the channel of the
 * lane's first byte. */
template <int C, bool WHOLE>
SIMT void count_piece(uint32_t *const *planes, const uint4 &piece, int j, int left, uint32_t one)
{
    uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
    unrolled_for (int i = 0; i < 16; i++)
        if (WHOLE || i < left)
            atomicAdd(bin_of<COPIES(C) * 4>(planes[C == 3 ? (j * 2 + i) % 3 : i % C],
                                            words[i / 4], i % 4),
                      one);
}

template <int C>
static __global__ void __launch_bounds__(SWEEP_THREADS)
    histogram_colour_kernel(row_stretches a, uint32_t *counts, uint32_t one)
{
    await_kernel_before();
    constexpr int copies = COPIES(C), bins = C * HISTOGRAM_BINS;
    __shared__ alignas(16) uint32_t tables[bins * copies];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, step = gridDim.x * SWEEP_WARPS;
    int item = blockIdx.x * SWEEP_WARPS + warp;
    sweep_place at = sweep_begin(item, step, a.stretches);
    row_part<C> part, next;
    if (item < a.stretch_count)
        row_load<C>(&next, a.from + (size_t)at.y * a.from_stride, at.x0, a.width, lane);
    for (int i = threadIdx.x; i < bins * copies / 4; i += SWEEP_THREADS)
        reinterpret_cast<uint4 *>(tables)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    uint32_t *planes[C];
    unrolled_for (int c = 0; c < C; c++)
        planes[c] = tables + (C == 3 ? (lane + c) % 3 : c) * HISTOGRAM_BINS * copies +
                    lane % copies;
    for (; item < a.stretch_count; item += step) {
        int left = a.width - at.x0;
        part = next;
        sweep_next(&at);
        if (item + step < a.stretch_count)
            row_load<C>(&next, a.from + (size_t)at.y * a.from_stride, at.x0, a.width, lane);
        unrolled_for (int j = 0; j < C; j++) {
            if (left >= WARP_PIXELS)
                count_piece<C, true>(planes, part.words[j], j, 16, one);
            else
                count_piece<C, false>(planes, part.words[j], j, left * C - (lane + j * WARP) * 16,
                                      one);
        }
    }
    __syncthreads();
    /* Each thread sums one bin. Neighbouring lanes read different copies, to avoid bank
     * conflicts. */
    for (int i = threadIdx.x; i < bins; i += SWEEP_THREADS) {
        uint32_t sum = 0;
        unrolled_for (int k = 0; k < copies; k++)
            sum += tables[i * copies + (k + i) % copies];
        if (sum)
            atomicAdd(&counts[i], sum);
    }
}

int histogram_count_cuda(const struct image *from, const struct histogram *histogram,
                         const struct image *gray, uint32_t *counts, struct CUstream_st *stream)
{
    uint32_t planes = histogram_planes(histogram, from->channels);
    cudaError_t result =
        cudaMemsetAsync(counts, 0, planes * HISTOGRAM_BINS * sizeof(*counts), stream);
    if (result != cudaSuccess)
        return result;
    row_stretches args = row_stretches_of<>(from, gray ? gray : from);
    if (!gray || from->channels == 1)
        args.to = NULL;
    return by_channels(from->channels, [&](auto c) {
        if (c == 1 || planes == 1)
            return launch_kernel(
                histogram_gray_kernel<c>, sweep_blocks(args, GRAY_WARPS(c), GRAY_BLOCKS),
                GRAY_WARPS(c) * WARP, 0, stream, args, gray_words_of(&histogram->gray), counts);
        return launch_kernel(histogram_colour_kernel < c == 1 ? 3 : decltype(c)::value >,
                             sweep_blocks(args, SWEEP_WARPS, COLOUR_BLOCKS), SWEEP_THREADS, 0,
                             stream, args, counts, 1);
    });
}

PASS_LAUNCHER(histogram_cuda)
{
    return histogram_count_cuda(from, reinterpret_cast<const struct histogram *>(pass->params),
                                NULL, reinterpret_cast<uint32_t *>(work), stream);
}
