/*
 * point.cu - tables and mixtures of channels: as many bytes as the picture has, once each way.
 *
 * The tables lie in shared memory: constant memory serves one address of a warp at a time, while
 * a table of 256 bytes fills two rows of the 32 banks, so that any 32 bytes take at most two
 * turns. They come with the launch as arguments, which belong to it alone, and are copied while
 * the first pixels are on their way.
 *
 * At 4 TB/s a multiprocessor reads and writes 17 bytes a cycle. One table looks up half of them,
 * 9 bytes; shared memory gives 16 in noise, and 32 where neighbours are alike, as they are in
 * photographs. Only RGB through a table, a mixture and another table, 13 to 17 lookups a cycle
 * while the pixels also pass through shared memory to lie side by side, is bound by the banks.
 * Keeping the next stretch of a warp in flight meanwhile was slower: it takes registers, and so
 * blocks, away.
 */
#include <cuda_runtime.h>

#include "gpu/ops/point.h"
#include "gpu/ops/rows.cuh"
#include "gpu/ops/tables.cuh"

#define WARPS 8
#define THREADS (WARPS * WARP)
/* 16-byte pieces a thread has in flight where no pixel needs another. */
#define PIECES 4

struct point_tables {
    uint4 pieces[POINT_TABLES * 16];
};

/* ---- kernels ---- */

/* One table; a block takes THREADS * PIECES pieces of one row. */
template <bool ALPHA>
static __global__ void __launch_bounds__(THREADS)
    table_kernel(const uint8_t *__restrict__ from, size_t from_stride, uint8_t *__restrict__ to,
                 size_t to_stride, int row_pieces, int row_blocks,
                 const __grid_constant__ point_tables tables)
{
    __shared__ alignas(16) uint8_t table[256];
    int y = blockIdx.x / row_blocks, block = blockIdx.x - y * row_blocks;
    int first = block * (THREADS * PIECES) + threadIdx.x;
    const uint4 *source = reinterpret_cast<const uint4 *>(from + (size_t)y * from_stride);
    uint4 *row = reinterpret_cast<uint4 *>(to + (size_t)y * to_stride);

    uint4 held[PIECES];
#pragma unroll
    for (int j = 0; j < PIECES; j++)
        if (first + j * THREADS < row_pieces)
            held[j] = __ldg(source + first + j * THREADS);
    tables_copy<1, WARPS>(table, tables.pieces, threadIdx.x / WARP, threadIdx.x % WARP);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < PIECES; j++)
        if (first + j * THREADS < row_pieces)
            row[first + j * THREADS] = look_up_four<ALPHA>(held[j], table);
}

struct point_args {
    const uint8_t *from;
    uint8_t *to;
    size_t from_stride, to_stride;
    int width, stretches, stretch_count; /* a warp takes a stretch of WARP_PIXELS of a row */
    gray_words gray;
    int32_t matrix[3][4];
    point_tables tables;
};

/* Four RGB pixels in three words. */
static __device__ __forceinline__ void mix_four_rgb(uint32_t *w0, uint32_t *w1, uint32_t *w2,
                                                    const int32_t (&m)[3][4])
{
    uint32_t bytes[12], sums[12];
#pragma unroll
    for (int k = 0; k < 12; k++)
        bytes[k] = (k < 4 ? *w0 : k < 8 ? *w1 : *w2) >> (k % 4 * 8) & 255u;
#pragma unroll
    for (int k = 0; k < 12; k++) {
        const uint32_t *pixel = bytes + k / 3 * 3;
        const int32_t *row = m[k % 3];
        sums[k] = (uint32_t)point_sum((int32_t)pixel[0], (int32_t)pixel[1], (int32_t)pixel[2],
                                      row[0], row[1], row[2], row[3]);
    }
    *w0 = gray_pack(sums[0], sums[1], sums[2], sums[3]);
    *w1 = gray_pack(sums[4], sums[5], sums[6], sums[7]);
    *w2 = gray_pack(sums[8], sums[9], sums[10], sums[11]);
}

static __device__ __forceinline__ uint32_t mix_rgba(uint32_t pixel, const int32_t (&m)[3][4])
{
    int32_t r = pixel & 255u, g = pixel >> 8 & 255u, b = pixel >> 16 & 255u;
    uint32_t sum_r = (uint32_t)point_sum(r, g, b, m[0][0], m[0][1], m[0][2], m[0][3]);
    uint32_t sum_g = (uint32_t)point_sum(r, g, b, m[1][0], m[1][1], m[1][2], m[1][3]);
    uint32_t sum_b = (uint32_t)point_sum(r, g, b, m[2][0], m[2][1], m[2][2], m[2][3]);
    /* Bytes 2 of the sums, and the pixel's own alpha. */
    return __byte_perm(__byte_perm(sum_r, sum_g, 0x0062), __byte_perm(sum_b, pixel, 0x0072),
                       0x5410);
}

template <int C, bool GRAY, bool AFTER>
static __device__ __forceinline__ void mix_stretch(row_part<C> *part, const point_args &a,
                                                   uint8_t *row, int x0, int lane, uint8_t *stage,
                                                   const uint8_t *after)
{
    if constexpr (C == 4) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint4 four = part->words[j];
            int x = x0 + (lane + j * WARP) * 4;
            if constexpr (GRAY) {
                uint32_t word = gray_four_rgba(four, a.gray);
                if (x < a.width)
                    *reinterpret_cast<uint32_t *>(row + x) =
                        AFTER ? look_up<false>(word, after) : word;
            } else {
                four = make_uint4(mix_rgba(four.x, a.matrix), mix_rgba(four.y, a.matrix),
                                  mix_rgba(four.z, a.matrix), mix_rgba(four.w, a.matrix));
                if (x < a.width)
                    *reinterpret_cast<uint4 *>(row + x * 4) =
                        AFTER ? look_up_four<true>(four, after) : four;
            }
        }
    } else {
        row_turn_rgb(part, stage, lane);
        if constexpr (GRAY) {
            uint4 pixels = gray_lane_rgb(*part, a.gray);
            int x = x0 + lane * LANE_PIXELS;
            if (x < a.width)
                *reinterpret_cast<uint4 *>(row + x) =
                    AFTER ? look_up_four<false>(pixels, after) : pixels;
        } else {
            uint4 *w = part->words;
            mix_four_rgb(&w[0].x, &w[0].y, &w[0].z, a.matrix);
            mix_four_rgb(&w[0].w, &w[1].x, &w[1].y, a.matrix);
            mix_four_rgb(&w[1].z, &w[1].w, &w[2].x, a.matrix);
            mix_four_rgb(&w[2].y, &w[2].z, &w[2].w, a.matrix);
            row_return_rgb(part, stage, lane);
#pragma unroll
            for (int j = 0; j < 3; j++) {
                int offset = x0 * 3 + (lane + j * WARP) * 16;
                if (offset < a.width * 3)
                    *reinterpret_cast<uint4 *>(row + offset) =
                        AFTER ? look_up_four<false>(w[j], after) : w[j];
            }
        }
    }
}

/* Gray or a matrix, between tables. */
template <int C, bool GRAY, bool BEFORE, bool AFTER>
static __global__ void __launch_bounds__(THREADS) mix_kernel(const __grid_constant__ point_args a)
{
    __shared__ alignas(16) uint8_t tables[2][256];
    __shared__ alignas(16) uint8_t stage[C == 3 ? WARPS : 1][C == 3 ? WARP_PIXELS * 3 : 16];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int item = blockIdx.x * WARPS + warp;
    int y = item / a.stretches, x0 = (item - y * a.stretches) * WARP_PIXELS;
    bool any = item < a.stretch_count;

    row_part<C> part;
    if (any)
        row_load<C>(&part, a.from + (size_t)y * a.from_stride, x0, a.width, lane);
    if constexpr (BEFORE || AFTER) {
        tables_copy<2, WARPS>(tables[0], a.tables.pieces, warp, lane);
        __syncthreads();
    }
    if (!any)
        return; /* the whole warp: no barrier across warps comes behind this */
    if constexpr (BEFORE) {
#pragma unroll
        for (int j = 0; j < C; j++)
            part.words[j] = look_up_four<C == 4>(part.words[j], tables[POINT_BEFORE]);
    }
    mix_stretch<C, GRAY, AFTER>(&part, a, a.to + (size_t)y * a.to_stride, x0, lane,
                                stage[C == 3 ? warp : 0], tables[POINT_AFTER]);
}

/* Gray to RGB: one lookup a pixel in the three tables side by side. */
static __global__ void __launch_bounds__(THREADS) tint_kernel(const __grid_constant__ point_args a)
{
    __shared__ alignas(16) uint8_t tables[POINT_TABLES][256];
    __shared__ uint32_t colours[256];
    __shared__ alignas(16) uint8_t stage[WARPS][WARP_PIXELS * 3];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int item = blockIdx.x * WARPS + warp;
    int y = item / a.stretches, x0 = (item - y * a.stretches) * WARP_PIXELS;
    bool any = item < a.stretch_count;

    row_part<1> gray;
    if (any)
        row_load<1>(&gray, a.from + (size_t)y * a.from_stride, x0, a.width, lane);
    tables_copy<POINT_TABLES, WARPS>(tables[0], a.tables.pieces, warp, lane);
    __syncthreads();
    for (int v = threadIdx.x; v < 256; v += THREADS)
        colours[v] = tables[0][v] | (uint32_t)tables[1][v] << 8 | (uint32_t)tables[2][v] << 16;
    __syncthreads();
    if (!any)
        return; /* the whole warp */

    uint32_t words[12];
    const uint32_t four[4] = {gray.words[0].x, gray.words[0].y, gray.words[0].z, gray.words[0].w};
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t p0 = colours[four[k] & 255u], p1 = colours[four[k] >> 8 & 255u];
        uint32_t p2 = colours[four[k] >> 16 & 255u], p3 = colours[four[k] >> 24];
        words[3 * k + 0] = p0 | p1 << 24;
        words[3 * k + 1] = p1 >> 8 | p2 << 16;
        words[3 * k + 2] = p2 >> 16 | p3 << 8;
    }
    row_part<3> part;
#pragma unroll
    for (int j = 0; j < 3; j++)
        part.words[j] = make_uint4(words[4 * j], words[4 * j + 1], words[4 * j + 2],
                                   words[4 * j + 3]);
    row_return_rgb(&part, stage[warp], lane);
    uint8_t *row = a.to + (size_t)y * a.to_stride;
#pragma unroll
    for (int j = 0; j < 3; j++) {
        int offset = x0 * 3 + (lane + j * WARP) * 16;
        if (offset < a.width * 3)
            *reinterpret_cast<uint4 *>(row + offset) = part.words[j];
    }
}

/* ---- launchers ---- */

/* Rows that follow each other without a gap are one long row: their padding may be written. */
static cudaError_t launch_table(const struct image *from, const struct image *to,
                                const point_tables &tables, cudaStream_t stream)
{
    size_t row_bytes = (size_t)from->width * from->channels;
    unsigned rows = from->height;
    if (from->stride == to->stride && from->stride == image_stride(from->width, from->channels)) {
        row_bytes = from->stride * rows;
        rows = 1;
    }
    int pieces = (int)((row_bytes + 15) / 16);
    int row_blocks = (pieces + THREADS * PIECES - 1) / (THREADS * PIECES);
    unsigned blocks = (unsigned)row_blocks * rows;
    if (from->channels == 4)
        table_kernel<true><<<blocks, THREADS, 0, stream>>>(
            from->pixels, from->stride, to->pixels, to->stride, pieces, row_blocks, tables);
    else
        table_kernel<false><<<blocks, THREADS, 0, stream>>>(
            from->pixels, from->stride, to->pixels, to->stride, pieces, row_blocks, tables);
    return cudaGetLastError();
}

template <int C, bool GRAY>
static cudaError_t launch_mix(const point_args &args, unsigned blocks, const struct point *point,
                              cudaStream_t stream)
{
    if (point->before && point->after)
        mix_kernel<C, GRAY, true, true><<<blocks, THREADS, 0, stream>>>(args);
    else if (point->before)
        mix_kernel<C, GRAY, true, false><<<blocks, THREADS, 0, stream>>>(args);
    else if (point->after)
        mix_kernel<C, GRAY, false, true><<<blocks, THREADS, 0, stream>>>(args);
    else
        mix_kernel<C, GRAY, false, false><<<blocks, THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}

extern "C" int point_cuda(const struct pass *pass, const struct image *from,
                          const struct image *to, uint8_t *work, struct CUstream_st *stream)
{
    const struct point *point = reinterpret_cast<const struct point *>(pass->params);
    point_args args;
    (void)work;
    memcpy(&args.tables, point->tables, sizeof(args.tables));
    if (point->mix == POINT_TABLE)
        return launch_table(from, to, args.tables, stream);
    args.from = from->pixels;
    args.to = to->pixels;
    args.from_stride = from->stride;
    args.to_stride = to->stride;
    args.width = (int)to->width;
    args.stretches = (int)((to->width + WARP_PIXELS - 1) / WARP_PIXELS);
    args.stretch_count = args.stretches * (int)to->height;
    args.gray = gray_words_of(&point->gray);
    memcpy(args.matrix, point->matrix, sizeof(args.matrix));
    unsigned blocks = (unsigned)(args.stretch_count + WARPS - 1) / WARPS;
    if (point->mix == POINT_TINT) {
        tint_kernel<<<blocks, THREADS, 0, stream>>>(args);
        return cudaGetLastError();
    }
    if (from->channels == 3)
        return point->mix == POINT_GRAY ? launch_mix<3, true>(args, blocks, point, stream)
                                        : launch_mix<3, false>(args, blocks, point, stream);
    return point->mix == POINT_GRAY ? launch_mix<4, true>(args, blocks, point, stream)
                                    : launch_mix<4, false>(args, blocks, point, stream);
}
