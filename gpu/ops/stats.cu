/*
 * stats.cu - the sum, minimum and maximum of each channel (stats.h) on the device.
 *
 * Each lane keeps its own values. At the end the values of a warp are combined by shuffles, and
 * those of a block through shared memory. Each block combines each value with the result in one
 * atomic. A minimum is kept as 255 - minimum, so that the result can start as zeros.
 */
#include "gpu/ops/rows.cuh"
#include "gpu/ops/stats.h"

/* A lane's values of one channel. `max` and `room` have two values of 16 bits each, for different
 * pixels; room is 255 - minimum. The sum of 16 million pixels fits in 32 bits. A lane processes a
 * thousandth of the image or less, but a warp may have more than 16 million pixels. */
struct lane_stats {
    uint32_t sum, max, room;
};

/* Adds up to four values of one channel: those whose bytes of `mask` are 0xFF. The mask turns the
 * others into 0, also of 255 - value, so that they change nothing. */
SIMT void take_four(lane_stats *stats, uint32_t four, uint32_t mask)
{
    uint32_t values = four & mask, rooms = ~four & mask;
    stats->sum = __dp4a(values, 0x01010101u, stats->sum);
    stats->max = __vmaxu2(stats->max, __vmaxu2(values & 0x00ff00ffu, values >> 8 & 0x00ff00ffu));
    stats->room = __vmaxu2(stats->room, __vmaxu2(rooms & 0x00ff00ffu, rooms >> 8 & 0x00ff00ffu));
}

SIMT uint32_t first_bytes(int n)
{
    return n >= 4 ? 0xffffffffu : n <= 0 ? 0u : (1u << (8 * n)) - 1;
}

SIMT void take_rgb(lane_stats *stats, uint32_t a, uint32_t b, uint32_t c, uint32_t mask)
{
    take_four(&stats[0], __byte_perm(__byte_perm(a, b, 0x0630), c, 0x5210), mask);
    take_four(&stats[1], __byte_perm(__byte_perm(a, b, 0x0741), c, 0x6210), mask);
    take_four(&stats[2], __byte_perm(__byte_perm(a, b, 0x0052), c, 0x7410), mask);
}

SIMT void take_rgba(lane_stats *stats, const uint4 &four, uint32_t mask)
{
    uint32_t rg01 = __byte_perm(four.x, four.y, 0x5140), rg23 = __byte_perm(four.z, four.w, 0x5140);
    uint32_t ba01 = __byte_perm(four.x, four.y, 0x7362), ba23 = __byte_perm(four.z, four.w, 0x7362);
    take_four(&stats[0], __byte_perm(rg01, rg23, 0x5410), mask);
    take_four(&stats[1], __byte_perm(rg01, rg23, 0x7632), mask);
    take_four(&stats[2], __byte_perm(ba01, ba23, 0x5410), mask);
    take_four(&stats[3], __byte_perm(ba01, ba23, 0x7632), mask);
}

template <int C>
SIMT void take_part(lane_stats *stats, row_part<C> *part, uint8_t *stage, int lane, int left)
{
    if constexpr (C == 4) {
        unrolled_for (int j = 0; j < 4; j++)
            take_rgba(stats, part->words[j], first_bytes(left - (lane + j * WARP) * 4));
    } else {
        if (C == 3)
            row_turn_rgb(reinterpret_cast<row_part<3> *>(part), stage, lane);
        const uint32_t *words = reinterpret_cast<const uint32_t *>(part->words);
        unrolled_for (int m = 0; m < 4; m++) {
            uint32_t mask = first_bytes(left - lane * LANE_PIXELS - m * 4);
            if constexpr (C == 3)
                take_rgb(stats, words[3 * m], words[3 * m + 1], words[3 * m + 2], mask);
            else
                take_four(stats, words[m], mask);
        }
    }
}

SIMT uint32_t greater_half(uint32_t two)
{
    return max(two & 0xffffu, two >> 16);
}

template <int C>
static __global__ void __launch_bounds__(SWEEP_THREADS)
    stats_kernel(row_stretches a, struct stats_channel *result)
{
    await_kernel_before();
    __shared__ alignas(16) uint8_t stage[C == 3 ? SWEEP_WARPS : 1][C == 3 ? WARP_PIXELS * 3 : 16];
    __shared__ unsigned long long sums[C];
    __shared__ unsigned maxes[C], rooms[C];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    if (threadIdx.x < C) {
        sums[threadIdx.x] = 0;
        maxes[threadIdx.x] = rooms[threadIdx.x] = 0;
    }
    __syncthreads();
    lane_stats stats[C] = {};
    for (int item = blockIdx.x * SWEEP_WARPS + warp; item < a.stretch_count;
         item += gridDim.x * SWEEP_WARPS) {
        int y = item / a.stretches, x0 = (item - y * a.stretches) * WARP_PIXELS;
        row_part<C> part;
        row_load<C>(&part, a.from + (size_t)y * a.from_stride, x0, a.width, lane);
        take_part<C>(stats, &part, stage[C == 3 ? warp : 0], lane, a.width - x0);
    }
    unrolled_for (int c = 0; c < C; c++) {
        unsigned long long sum = stats[c].sum;
        uint32_t high = greater_half(stats[c].max);
        uint32_t room = greater_half(stats[c].room);
        for (int step = WARP / 2; step > 0; step /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, step);
            high = max(high, __shfl_xor_sync(0xffffffffu, high, step));
            room = max(room, __shfl_xor_sync(0xffffffffu, room, step));
        }
        if (lane == 0) {
            atomicAdd(&sums[c], sum);
            atomicMax(&maxes[c], high);
            atomicMax(&rooms[c], room);
        }
    }
    __syncthreads();
    if (threadIdx.x < C) {
        struct stats_channel *channel = &result[threadIdx.x];
        atomicAdd(reinterpret_cast<unsigned long long *>(&channel->sum), sums[threadIdx.x]);
        atomicMax(&channel->max, maxes[threadIdx.x]);
        atomicMax(&channel->room, rooms[threadIdx.x]);
    }
}

PASS_LAUNCHER(stats_cuda)
{
    struct stats_channel *result = reinterpret_cast<struct stats_channel *>(work);
    row_stretches args = row_stretches_of<>(from, from);
    cudaError_t error = cudaMemsetAsync(result, 0, from->channels * sizeof(*result), stream);
    if (error != cudaSuccess)
        return error;
    return by_channels(from->channels, [&](auto c) {
        return launch_kernel(stats_kernel<c>, sweep_blocks(args, SWEEP_WARPS, 4), SWEEP_THREADS, 0,
                             stream, args, result);
    });
}
