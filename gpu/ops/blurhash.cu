/*
 * blurhash.cu - computes the sums of a BlurHash (blurhash.h), with a warp per span of a row.
 *
 * Each lane adds up every 32nd pixel of the span: its colours, and their products with the cosines
 * of all components across. Then the lanes exchange these sums so that each lane has the whole sum
 * of one component and colour. It multiplies this sum by the cosines of all components down, and
 * keeps its own total of all rows. All sums are integers, so their order does not matter.
 *
 * One block computes a small image, and stores its sums. The blocks of a larger image add their
 * sums to those of the image. Small images share launches.
 */
#include "gpu/ops/blurhash.h"
#include "gpu/ops/launch.cuh"

#define WARP 32
#define WARPS  16
#define BLOCKS 2 /* per multiprocessor */
#define ALL 0xFFFFFFFFu
/* A block computes images of up to so many pixels. */
#define BLOCK_PIXELS 8192u
/* Components across that most hashes have, at most: kernels for more of them are slower. */
#define BLURHASH_USUAL 4

struct blurhash_args : pass_images {
    struct blurhash own;
    const int32_t *tables;
    unsigned long long *sums;
};

/* The sums of a span. ACROSS: the most components across. */
template <int C, int ACROSS> struct span_sums {
    static constexpr int planes = C == 1 ? 1 : 3;
    static constexpr int products = ACROSS * planes, used = products + planes;
    static constexpr int slots = used <= 8 ? 8 : used <= 16 ? 16 : 32;
    /* Component i of colour c is at i * planes + c; for i = 0, whose cosines are 1, in units of
     * BLURHASH_BITS. The sums of the colours of the table start at `products`. */
    int64_t of[slots];
};

template <int C> SIMT void load_pixel(int32_t *linear, const uint8_t *pixel, const int32_t *table,
                                      const struct flatten &under)
{
    unrolled_for (int c = 0; c < (C == 1 ? 1 : 3); c++)
        linear[c] = table[C == 4 ? flatten_byte(pixel[c], pixel[C - 1], under.background[c])
                                 : pixel[c]];
}

/* Adds up the lane's pixels, from `start` + lane on. */
template <int C, int ACROSS>
SIMT void sum_span(const blurhash_args &a, span_sums<C, ACROSS> *sums, const uint8_t *row,
                   const int32_t *table, int start, int end)
{
    constexpr int planes = span_sums<C, ACROSS>::planes;
    const int32_t *columns = a.tables + BLURHASH_COLOURS;
    for (int x = start + (int)(threadIdx.x % WARP); x < end; x += WARP) {
        int32_t linear[planes];
        load_pixel<C>(linear, row + (size_t)x * C, table, a.own.under);
        unrolled_for (int c = 0; c < planes; c++) {
            sums->of[span_sums<C, ACROSS>::products + c] += linear[c];
            linear[c] = blurhash_short(linear[c]);
            sums->of[c] += linear[c];
        }
        unrolled_for (int i = 1; i < ACROSS; i++) {
            int32_t cosine = i < a.own.across ? __ldg(columns + (size_t)i * a.width + x) : 0;
            unrolled_for (int c = 0; c < planes; c++)
                sums->of[i * planes + c] += (int64_t)linear[c] * cosine;
        }
    }
}

/* Halves the number of values that a lane has, 2 STEP, until it is 1. In each step, a lane sends
 * one half to its partner, and adds what it gets to the other half. */
template <int STEP> SIMT void halve_slots(int64_t *values)
{
    bool upper = threadIdx.x & STEP;
    unrolled_for (int k = 0; k < STEP; k++) {
        int64_t low = values[k], high = values[k + STEP];
        values[k] = (upper ? high : low) + __shfl_xor_sync(ALL, upper ? low : high, STEP);
    }
    if constexpr (STEP > 1)
        halve_slots<STEP / 2>(values);
}

/* Returns the sum over all lanes of the value in slot `lane` % SLOTS. */
template <int SLOTS> SIMT int64_t sum_slots(int64_t (&values)[SLOTS])
{
    halve_slots<SLOTS / 2>(values);
    unrolled_for (int step = SLOTS; step < WARP; step *= 2)
        values[0] += __shfl_xor_sync(ALL, values[0], step);
    return values[0];
}

/* The totals of a lane: of component j down, for its component across. */
struct lane_totals {
    int64_t of[BLURHASH_SIDE_MAX];
};

/* Adds a row's sum to the totals. */
SIMT void add_row(const blurhash_args &a, lane_totals *totals, int64_t sum, bool is_product, int y)
{
    const int32_t *rows = a.tables + BLURHASH_COLOURS + (size_t)a.own.across * a.width;
    unrolled_for (int j = 0; j < BLURHASH_SIDE_MAX; j++) {
        if (j >= a.own.down)
            break;
        int32_t cosine = __ldg(rows + (size_t)j * a.height + y);
        totals->of[j] += is_product ? blurhash_weigh(sum, cosine) : sum;
    }
}

/* Adds the lane's totals to the sums of the block. The coefficient (0, 0) is the sum of the
 * colours of the table. */
template <int C, int ACROSS>
SIMT void add_totals(const blurhash_args &a, unsigned long long *sums, const lane_totals &totals)
{
    constexpr int planes = span_sums<C, ACROSS>::planes, products = span_sums<C, ACROSS>::products;
    int slot = threadIdx.x % WARP, count = a.own.across * planes;
    if (slot >= products && slot < products + planes)
        atomicAdd(&sums[slot - products], (unsigned long long)totals.of[0]);
    unrolled_for (int j = 0; j < BLURHASH_SIDE_MAX; j++)
        if (j < a.own.down && slot < count && (j > 0 || slot >= planes))
            atomicAdd(&sums[j * count + slot], (unsigned long long)totals.of[j]);
}

/* The grid has a column of blocks per span. A block processes WARPS rows, then the WARPS rows
 * `down` blocks further down, and so on. */
template <int C, int ACROSS, int N>
static __global__ void __launch_bounds__(WARPS *WARP)
    blurhash_kernel(const __grid_constant__ several<blurhash_args, N> all)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    using sums_of = span_sums<C, ACROSS>;
    __shared__ unsigned long long sums[BLURHASH_SUMS_MAX];
    __shared__ int32_t table[BLURHASH_COLOURS];
    const blurhash_args &a = several_own(all);
    int across = (int)all.across[N == 1 ? 0 : blockIdx.z],
        down = (int)all.down[N == 1 ? 0 : blockIdx.z];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int start = blockIdx.x * BLURHASH_SPAN, end = min(start + BLURHASH_SPAN, a.width);
    int count = a.own.across * a.own.down * sums_of::planes;
    for (int i = threadIdx.x; i < count; i += WARPS * WARP)
        sums[i] = 0;
    for (int i = threadIdx.x; i < BLURHASH_COLOURS; i += WARPS * WARP)
        table[i] = a.tables[i];
    __syncthreads();
    bool is_product = lane % sums_of::slots < sums_of::products;
    lane_totals totals = {};
    for (int y = blockIdx.y * WARPS + warp; y < a.height; y += down * WARPS) {
        sums_of own = {};
        sum_span<C, ACROSS>(a, &own, a.from + (size_t)y * a.from_stride, table, start, end);
        int64_t sum = sum_slots(own.of);
        if (is_product && lane % sums_of::slots >= sums_of::planes)
            sum = blurhash_narrow(sum);
        add_row(a, &totals, sum, is_product, y);
    }
    add_totals<C, ACROSS>(a, sums, totals);
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += WARPS * WARP)
        if (across * down == 1)
            a.sums[i] = sums[i];
        else
            atomicAdd(&a.sums[i], sums[i]);
}

/* The number of blocks of an image, across and down. */
static dim3 blurhash_blocks(const struct image *from)
{
    if (from->width <= BLURHASH_SPAN && from->width * from->height <= BLOCK_PIXELS)
        return dim3(1, 1);
    unsigned spans = (from->width + BLURHASH_SPAN - 1) / BLURHASH_SPAN;
    unsigned groups = (from->height + WARPS - 1) / WARPS;
    unsigned most = (unsigned)multiprocessors() * BLOCKS / spans + 1;
    return dim3(spans, groups < most ? groups : most);
}

static dim3 describe(const struct pass_call &call, blurhash_args *args)
{
    *args = pass_args<blurhash_args>(&call.from, &call.from);
    args->own = *reinterpret_cast<const struct blurhash *>(call.pass->params);
    args->tables = reinterpret_cast<const int32_t *>(call.pass->constants);
    args->sums = reinterpret_cast<unsigned long long *>(call.work);
    return blurhash_blocks(&call.from);
}

template <int C, int ACROSS>
static cudaError_t launch_blurhash(const struct pass_call *calls, uint32_t count,
                                   cudaStream_t stream)
{
    return launch_several<blurhash_args>(calls, count, describe, [&](const auto &all, dim3 grid) {
        constexpr int n = sizeof(all.of) / sizeof(all.of[0]);
        return launch_kernel(blurhash_kernel<C, ACROSS, n>, grid, WARPS * WARP, 0, stream, all);
    });
}

PASS_LAUNCHER_MANY(blurhash_cuda)
{
    int32_t across = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct blurhash *own =
            reinterpret_cast<const struct blurhash *>(calls[i].pass->params);
        dim3 blocks = blurhash_blocks(&calls[i].from);
        across = across < own->across ? own->across : across;
        if (blocks.x * blocks.y == 1)
            continue;
        cudaError_t error = cudaMemsetAsync(calls[i].work, 0, calls[i].pass->work_bytes, stream);
        if (error != cudaSuccess)
            return error;
    }
    return by_channels(calls->from.channels, [&](auto c) {
        return across <= BLURHASH_USUAL
                   ? launch_blurhash<c, BLURHASH_USUAL>(calls, count, stream)
                   : launch_blurhash<c, BLURHASH_SIDE_MAX>(calls, count, stream);
    });
}
