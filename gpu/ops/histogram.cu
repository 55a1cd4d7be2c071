/*
 * histogram.cu - the histograms of histogram.h on the device.
 *
 * A block counts in shared memory, and at the end adds each of its counters to the result. A warp
 * processes the image in stretches of a row (rows.cuh), and loads its next stretch while it counts
 * the current one.
 *
 * For a histogram of gray, a block has one table of 256 counters. Blocks are as large as possible,
 * because each block must clear its table and add it to the result. The atomic instruction that
 * adds a constant 1 counts lanes with the same address at once, and takes longer for more different
 * addresses. Lanes therefore count neighbouring words, whose pixels are similar in photographs.
 *
 * For a histogram of each channel, a block has one table per channel, in several interleaved
 * copies: counter b of copy k is word b * copies + k, and lane l uses copy l % copies. So only two
 * or four lanes can have the same address, even if the image has a single colour. With so few
 * equal addresses, an atomic that adds a register is faster than one that adds a constant. `one` is
 * therefore an argument of the kernel.
 */
#include "gpu/ops/histogram.h"
#include "gpu/ops/rows.cuh"

/* For gray: warps per block, by the image's channels, and resident blocks per multiprocessor. */
#define GRAY_WARPS(channels) ((channels) == 1 ? 32 : 16)
#define GRAY_BLOCKS 2
/* For a table per channel: resident blocks per multiprocessor, and copies of the tables. */
#define COLOUR_BLOCKS 2
#define COPIES(channels) ((channels) == 3 ? 16 : 8)

/* The column of the first of the four gray pixels in a lane's word m (0..3). With RGB, the sixteen
 * pixels of a lane are adjacent. Otherwise, only the four pixels of a word are adjacent. */
template <int C> SIMT int gray_place(int x0, int lane, int m)
{
    return C == 3 ? x0 + lane * LANE_PIXELS + m * 4 : x0 + (lane + m * WARP) * 4;
}

/* The counter of byte i of a word, in a table whose counters are STEP bytes apart. One __dp4a
 * extracts the byte and multiplies it. */
template <unsigned STEP> SIMT uint32_t *bin_of(uint32_t *table, uint32_t word, int i)
{
    return reinterpret_cast<uint32_t *>(reinterpret_cast<uint8_t *>(table) +
                                        __dp4a(word, STEP << (8 * i), 0u));
}

/* Counts the first n bytes of a word. n may be negative or more than 4. */
SIMT void count_gray(uint32_t *table, uint32_t word, int n)
{
    unrolled_for (int i = 0; i < 4; i++)
        if (i < n)
            atomicAdd(bin_of<4>(table, word, i), 1u);
}

/* What a lane has loaded of a stretch. Of a gray image these are four words, so that in each of
 * four loads the lanes of a warp read neighbouring words. */
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

/* Stores a lane's sixteen gray pixels in `row`, a row of the gray image. */
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

/* a.to: where the gray image is stored, or NULL. */
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

/* Counts the 16 bytes of a lane's piece j, or the first `left` of them if not WHOLE. With three
 * channels, planes[] starts with the channel of the lane's first byte, and piece j starts 512 j
 * bytes after it. 512 is 2 modulo 3, so byte i of the piece is of channel 2 j + i modulo 3. */
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
    /* Each thread adds the copies of a counter. Neighbouring lanes start with different copies, to
     * avoid bank conflicts. */
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
