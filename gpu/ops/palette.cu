/*
 * palette.cu - counts the pixels of each cell of colours (palette.h) on the device.
 *
 * The table of cells takes 64 KiB: it is in global memory, and stays in the L2 cache. A lane adds
 * up adjacent pixels of the same cell in registers, and sends two atomics when the cell changes, so
 * that a large area of one colour needs few atomics on its cell.
 */
#include "gpu/ops/palette.h"
#include "gpu/ops/rows.cuh"

/* What a lane has counted of its current cell. */
struct tally {
    uint32_t cell, pixels, red, green, blue;
};

/* cells: two words of 64 bits per cell. No half of a word overflows into the other. */
SIMT void tally_send(const tally &own, unsigned long long *cells)
{
    if (own.pixels == 0)
        return;
    atomicAdd(&cells[own.cell * 2], own.pixels | (unsigned long long)own.red << 32);
    atomicAdd(&cells[own.cell * 2 + 1], own.green | (unsigned long long)own.blue << 32);
}

SIMT void tally_add(tally *own, uint32_t red, uint32_t green, uint32_t blue,
                    unsigned long long *cells)
{
    uint32_t cell = palette_cell_of(red, green, blue);
    if (cell != own->cell) {
        tally_send(*own, cells);
        *own = {cell, 0, 0, 0, 0};
    }
    own->pixels++;
    own->red += palette_offset(red);
    own->green += palette_offset(green);
    own->blue += palette_offset(blue);
}

SIMT uint32_t byte_of(const uint32_t *words, int i)
{
    return words[i / 4] >> (8 * (i % 4)) & 255u;
}

/* The column of pixel i of the sixteen of a lane. With RGBA, only four are adjacent. */
template <int C> SIMT int column_of(int x0, int lane, int i)
{
    return C == 4 ? x0 + (lane + i / 4 * WARP) * 4 + i % 4 : x0 + lane * LANE_PIXELS + i;
}

template <int C>
SIMT void count_part(tally *own, const row_part<C> &part, int x0, int width, int lane,
                     unsigned long long *cells)
{
    const uint32_t *words = reinterpret_cast<const uint32_t *>(part.words);
    unrolled_for (int i = 0; i < LANE_PIXELS; i++) {
        if (column_of<C>(x0, lane, i) >= width)
            continue;
        uint32_t red = byte_of(words, i * C);
        uint32_t green = C == 1 ? red : byte_of(words, i * C + (C > 1));
        uint32_t blue = C == 1 ? red : byte_of(words, i * C + (C > 1 ? 2 : 0));
        if (C < 4 || byte_of(words, i * C + C - 1) >= PALETTE_ALPHA)
            tally_add(own, red, green, blue, cells);
    }
}

template <int C>
static __global__ void __launch_bounds__(SWEEP_THREADS)
    palette_kernel(row_stretches a, unsigned long long *cells)
{
    await_kernel_before();
    __shared__ alignas(16) uint8_t stage[C == 3 ? SWEEP_WARPS : 1][C == 3 ? WARP_PIXELS * 3 : 16];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    tally own = {};
    for (int item = blockIdx.x * SWEEP_WARPS + warp; item < a.stretch_count;
         item += gridDim.x * SWEEP_WARPS) {
        int y = item / a.stretches, x0 = (item - y * a.stretches) * WARP_PIXELS;
        row_part<C> part;
        row_load<C>(&part, a.from + (size_t)y * a.from_stride, x0, a.width, lane);
        if constexpr (C == 3)
            row_turn_rgb(&part, stage[warp], lane);
        count_part<C>(&own, part, x0, a.width, lane, cells);
    }
    tally_send(own, cells);
}

PASS_LAUNCHER(palette_cuda)
{
    unsigned long long *cells = reinterpret_cast<unsigned long long *>(work);
    row_stretches args = row_stretches_of<>(from, from);
    cudaError_t error =
        cudaMemsetAsync(cells, 0, PALETTE_CELLS * sizeof(struct palette_cell), stream);
    if (error != cudaSuccess)
        return error;
    return by_channels(from->channels, [&](auto c) {
        return launch_kernel(palette_kernel<c>, sweep_blocks(args, SWEEP_WARPS, 2), SWEEP_THREADS,
                             0, stream, args, cells);
    });
}
