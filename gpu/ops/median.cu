/*
 * median.cu - the medians of 3 x 3 and 5 x 5 pixels (median.h) on the device.
 *
 * A byte in 16 bits is a subnormal number of type half, and such numbers are ordered like integers.
 * One minimum or maximum of type half2 therefore compares two bytes at once. A lane computes the
 * medians of four columns. It sorts these columns and two more on either side, and then runs the
 * sorting network of median.h twice, for two medians each.
 */
#include "gpu/ops/tile.cuh"

#define WARPS 8
#define LANE_ROWS 4
#define BLOCK_ROWS (WARPS * LANE_ROWS)

#define MEDIAN __half2
#define MEDIAN_INLINE SIMT

/* Before compute capability 8.0, __hmin2 and __hmax2 compare the halves one by one, in many
 * instructions. These need one for the mask of both, and one for each result. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
SIMT __half2 median_min(__half2 a, __half2 b)
{
    uint32_t less = __hlt2_mask(a, b);
    return pair_of((word_of_pair(a) & less) | (word_of_pair(b) & ~less));
}

SIMT __half2 median_max(__half2 a, __half2 b)
{
    uint32_t less = __hlt2_mask(a, b);
    return pair_of((word_of_pair(b) & less) | (word_of_pair(a) & ~less));
}
#else
SIMT __half2 median_min(__half2 a, __half2 b)
{
    return __hmin2(a, b);
}

SIMT __half2 median_max(__half2 a, __half2 b)
{
    return __hmax2(a, b);
}
#endif

#include "gpu/ops/median.h"

/* Reads the pixels of columns -2..5 of a row, in pairs. The lane's word has the columns 0..3. */
SIMT void take_row(const uint8_t *word, __half2 *pairs)
{
    uint32_t before = *reinterpret_cast<const uint32_t *>(word - 4);
    uint32_t four = *reinterpret_cast<const uint32_t *>(word);
    uint32_t after = *reinterpret_cast<const uint32_t *>(word + 4);
    pairs[0] = pair_of(__byte_perm(before, 0, 0x4342));
    pairs[1] = pair_of(__byte_perm(four, 0, 0x4140));
    pairs[2] = pair_of(__byte_perm(four, 0, 0x4342));
    pairs[3] = pair_of(__byte_perm(after, 0, 0x4140));
}

SIMT uint32_t median_lane3(const uint8_t (*plane)[TILE_PITCH], int row, int at)
{
    __half2 v[3][4], result[2];
    unrolled_for (int j = 0; j < 3; j++)
        take_row(&plane[row + j][at], v[j]);
    unrolled_for (int i = 0; i < 4; i++)
        median_sort3(&v[0][i], &v[1][i], &v[2][i]);
    unrolled_for (int i = 0; i < 2; i++) {
        const __half2 *a = v[0] + i, *b = v[1] + i, *c = v[2] + i;
        result[i] = median_of9(pair_between(a[0], a[1]), a[1], pair_between(a[1], a[2]),
                               pair_between(b[0], b[1]), b[1], pair_between(b[1], b[2]),
                               pair_between(c[0], c[1]), c[1], pair_between(c[1], c[2]));
    }
    return __byte_perm(word_of_pair(result[0]), word_of_pair(result[1]), 0x6420);
}

SIMT uint32_t median_lane5(const uint8_t (*plane)[TILE_PITCH], int row, int at)
{
    __half2 v[5][4], result[2];
    unrolled_for (int j = 0; j < 5; j++)
        take_row(&plane[row + j][at], v[j]);
    unrolled_for (int i = 0; i < 4; i++)
        median_sort5(&v[0][i], &v[1][i], &v[2][i], &v[3][i], &v[4][i]);
    unrolled_for (int i = 0; i < 2; i++) {
        __half2 around[5][5];
        unrolled_for (int r = 0; r < 5; r++) {
            around[r][0] = v[r][i];
            around[r][1] = pair_between(v[r][i], v[r][i + 1]);
            around[r][2] = v[r][i + 1];
            around[r][3] = pair_between(v[r][i + 1], v[r][i + 2]);
            around[r][4] = v[r][i + 2];
        }
        result[i] = median_of25(around);
    }
    return __byte_perm(word_of_pair(result[0]), word_of_pair(result[1]), 0x6420);
}

template <int C, int SIZE, tile_form F>
static __global__ void __launch_bounds__(WARPS *WARP)
    median_kernel(tile_args a, const __grid_constant__ tile_prologue<F> given)
{
    await_kernel_before();
    constexpr int radius = SIZE / 2;
    __shared__ tile_memory<C, F, WARPS, BLOCK_ROWS + 2 * radius> memory;
    __shared__ alignas(16) uint8_t table[TILE_TABLE_BYTES(F)];
    int lane = threadIdx.x % WARP, row = threadIdx.x / WARP * LANE_ROWS;
    int tile_y = blockIdx.x / a.tiles_across;
    int x0 = (blockIdx.x - tile_y * a.tiles_across) * TILE_WIDTH, y0 = tile_y * BLOCK_ROWS;
    int rows = min(BLOCK_ROWS, a.height - y0), at = TILE_MARGIN + lane * 4;
    tile_load(memory, a, x0, y0 - radius, rows + 2 * radius, radius, given, table);
#pragma unroll 1
    for (int c = 0; c < memory.planes; c++) {
        uint32_t result[LANE_ROWS];
        if (row < rows) {
            unrolled_for (int j = 0; j < LANE_ROWS; j++)
                result[j] = SIZE == 3 ? median_lane3(memory.plane[c], row + j, at)
                                      : median_lane5(memory.plane[c], row + j, at);
        }
        if (memory.planes != 1)
            __syncthreads();
        if (row < rows)
            tile_put(memory, a, x0, y0, row, c, lane, result);
    }
    tile_store(memory, a, x0, y0, rows);
}

PASS_LAUNCHER(median_cuda)
{
    const struct median *median = reinterpret_cast<const struct median *>(pass->params);
    const struct prologue *prologue = &median->prologue;
    tile_args args = tile_args_of(from, to, BORDER_REPLICATE);
    return tile_by_form(from->channels, prologue, [&](auto c, auto form) {
        auto kernel = median->size == 3 ? median_kernel<c, 3, form> : median_kernel<c, 5, form>;
        return launch_kernel(kernel, tile_blocks(args, BLOCK_ROWS), WARPS * WARP, 0, stream, args,
                             tile_prologue_of<form>(prologue));
    });
}
