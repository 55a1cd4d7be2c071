/*
 * convolve.cu - convolution with up to 15 x 15 weights (convolve.h).
 *
 * Each lane computes four columns of four rows. A weight is read once for 16 products, and all
 * lanes read the same address. A row of bytes is unpacked once for all weights of a row. The
 * weights are a launch argument: it is in constant memory and belongs to this launch only, whereas
 * a __constant__ symbol would be shared by all streams.
 */
#include "gpu/ops/convolve.h"
#include "gpu/ops/tile.cuh"

#define WARPS 8
#define LANE_ROWS 4
#define BLOCK_ROWS (WARPS * LANE_ROWS)
#define HALO (CONVOLVE_SIDE_MAX / 2)

/* The columns of the weights are padded to K columns, with zeros on both sides. */
template <int K> struct convolve_args {
    tile_args tile;
    int rows;
    int32_t start;
    int32_t weights[CONVOLVE_SIDE_MAX][K];
};

/* Unpacks K + 3 bytes to integers, from K / 2 bytes before `word` on. */
template <int K> SIMT void unpack(const uint8_t *word, int *values)
{
    constexpr int side = (K / 2 + 3) / 4;
    unrolled_for (int q = -side; q <= side; q++) {
        uint32_t four = word_at(word + q * 4);
        unrolled_for (int k = 0; k < 4; k++) {
            int place = q * 4 + k + K / 2;
            if (place >= 0 && place < K + 3)
                values[place] = (int)(four >> (8 * k) & 255u);
        }
    }
}

template <int K>
SIMT void convolve_lane(const convolve_args<K> &a, const uint8_t (*plane)[TILE_PITCH], int row,
                        int at, uint32_t *result)
{
    int32_t sums[LANE_ROWS][4];
    unrolled_for (int j = 0; j < LANE_ROWS; j++)
        unrolled_for (int k = 0; k < 4; k++)
            sums[j][k] = a.start;
#pragma unroll 1
    for (int y = 0; y < a.rows; y++) {
        unrolled_for (int j = 0; j < LANE_ROWS; j++) {
            int values[K + 3];
            unpack<K>(&plane[row + j + y][at], values);
            unrolled_for (int x = 0; x < K; x++)
                unrolled_for (int k = 0; k < 4; k++)
                    sums[j][k] += a.weights[y][x] * values[x + k];
        }
    }
    unrolled_for (int j = 0; j < LANE_ROWS; j++) {
        result[j] = 0;
        unrolled_for (int k = 0; k < 4; k++)
            result[j] |= (uint32_t)convolve_byte(sums[j][k]) << (8 * k);
    }
}

template <int C, int K, tile_form F>
static __global__ void __launch_bounds__(WARPS *WARP)
    convolve_kernel(const __grid_constant__ convolve_args<K> a,
                    const __grid_constant__ tile_prologue<F> given)
{
    await_kernel_before();
    __shared__ tile_memory<C, F, WARPS, BLOCK_ROWS + 2 * HALO> memory;
    __shared__ alignas(16) uint8_t table[TILE_TABLE_BYTES(F)];
    int lane = threadIdx.x % WARP, row = threadIdx.x / WARP * LANE_ROWS;
    int tile_y = blockIdx.x / a.tile.tiles_across;
    int x0 = (blockIdx.x - tile_y * a.tile.tiles_across) * TILE_WIDTH, y0 = tile_y * BLOCK_ROWS;
    int rows = min(BLOCK_ROWS, a.tile.height - y0), down = a.rows / 2;
    tile_load(memory, a.tile, x0, y0 - down, rows + 2 * down, K / 2, given, table);
#pragma unroll 1
    for (int c = 0; c < memory.planes; c++) {
        uint32_t result[LANE_ROWS];
        if (row < rows)
            convolve_lane<K>(a, memory.plane[c], row, TILE_MARGIN + lane * 4, result);
        if (memory.planes != 1)
            __syncthreads();
        if (row < rows)
            tile_put(memory, a.tile, x0, y0, row, c, lane, result);
    }
    tile_store(memory, a.tile, x0, y0, rows);
}

template <int K>
static cudaError_t launch(const struct convolve *convolve, const struct image *from,
                          const struct image *to, cudaStream_t stream)
{
    convolve_args<K> args;
    memset(&args, 0, sizeof(args));
    args.tile = tile_args_of(from, to, convolve->border);
    args.rows = convolve->rows;
    args.start = convolve->start;
    int before = K / 2 - convolve->columns / 2;
    for (int y = 0; y < convolve->rows; y++)
        for (int x = 0; x < convolve->columns; x++)
            args.weights[y][before + x] = convolve->weights[y * convolve->columns + x];
    const struct prologue *prologue = &convolve->prologue;
    return tile_by_form(from->channels, prologue, [&](auto c, auto form) {
        return launch_kernel(convolve_kernel<c, K, form>, tile_blocks(args.tile, BLOCK_ROWS),
                             WARPS * WARP, 0, stream, args, tile_prologue_of<form>(prologue));
    });
}

PASS_LAUNCHER(convolve_cuda)
{
    const struct convolve *convolve = reinterpret_cast<const struct convolve *>(pass->params);
    if (convolve->columns <= 3)
        return launch<3>(convolve, from, to, stream);
    if (convolve->columns <= 5)
        return launch<5>(convolve, from, to, stream);
    if (convolve->columns <= 9)
        return launch<9>(convolve, from, to, stream);
    return launch<CONVOLVE_SIDE_MAX>(convolve, from, to, stream);
}
