/*
 * tile.cuh - a tile of an image with its halo in shared memory, one plane a channel.
 *
 * A block takes 128 columns and some rows of the result. Its part of the source, 16 columns more
 * on either side and some rows more above and below, is read with 16-byte loads of neighbouring
 * lanes; colours are sorted into planes with byte permutations, so that a lane then has four
 * pixels of one channel in a word, and its neighbours' words beside it (rows of 40 words: lanes
 * read 32 banks). Results go back into the planes, are mixed again and written 16 bytes a lane.
 * Planes are of colours only: alpha is taken from the source when the result is written.
 *
 * Where the tile meets the image's left or right side, the columns outside are made afterwards
 * from the row itself; rows above and below are other rows of the source.
 */
#ifndef GPUIMGD_GPU_OPS_TILE_CUH
#define GPUIMGD_GPU_OPS_TILE_CUH

#include <cuda_runtime.h>

#include "gpu/ops/border.h"
#include "gpu/pass.h"

#define WARP 32
#define TILE_WIDTH 128
#define TILE_MARGIN 16
#define TILE_PITCH (TILE_MARGIN + TILE_WIDTH + TILE_MARGIN)

struct tile_args {
    const uint8_t *from;
    uint8_t *to;
    size_t from_stride, to_stride;
    int width, height;
    int tiles_across;
    enum border border;
};

static inline tile_args tile_args_of(const struct image *from, const struct image *to,
                                     enum border border)
{
    tile_args args;
    args.from = from->pixels;
    args.to = to->pixels;
    args.from_stride = from->stride;
    args.to_stride = to->stride;
    args.width = (int)from->width;
    args.height = (int)from->height;
    args.tiles_across = (args.width + TILE_WIDTH - 1) / TILE_WIDTH;
    args.border = border;
    return args;
}

static inline unsigned tile_blocks(const tile_args &args, int rows)
{
    return (unsigned)args.tiles_across * (unsigned)((args.height + rows - 1) / rows);
}

/* A block's shared memory: ROWS rows of each plane, HALO of them above the result's first. */
template <int C, int WARPS, int ROWS> struct tile_memory {
    static constexpr int planes = C == 1 ? 1 : 3;
    alignas(16) uint8_t plane[planes][ROWS][TILE_PITCH];
    alignas(16) uint8_t stage[C == 3 ? WARPS : 1][C == 3 ? WARP * 48 : 16];
};

/* 16 bytes of a row; bytes outside of it are anything. A piece that holds a byte of the row lies
 * within the stride. */
static __device__ __forceinline__ uint4 tile_piece(const tile_args &a, int y, int offset,
                                                   int row_bytes)
{
    int row = border_inside(y, a.height, a.border);
    if (row < 0 || offset < 0 || offset >= row_bytes)
        return make_uint4(0, 0, 0, 0);
    return __ldg(reinterpret_cast<const uint4 *>(a.from + (size_t)row * a.from_stride + offset));
}

/* Four RGB pixels in three words, and as a word of each colour. */
static __device__ __forceinline__ void tile_sort_rgb(uint32_t a, uint32_t b, uint32_t c,
                                                     uint32_t *red, uint32_t *green,
                                                     uint32_t *blue)
{
    *red = __byte_perm(__byte_perm(a, b, 0x0630), c, 0x5210);
    *green = __byte_perm(__byte_perm(a, b, 0x0741), c, 0x6210);
    *blue = __byte_perm(__byte_perm(a, b, 0x0052), c, 0x7410);
}

static __device__ __forceinline__ void tile_mix_rgb(uint32_t red, uint32_t green, uint32_t blue,
                                                    uint32_t *a, uint32_t *b, uint32_t *c)
{
    *a = __byte_perm(__byte_perm(red, green, 0x1040), blue, 0x3410);
    *b = __byte_perm(__byte_perm(green, red, 0x2601), blue, 0x3250);
    *c = __byte_perm(__byte_perm(red, green, 0x0730), blue, 0x7216);
}

static __device__ __forceinline__ void tile_sort_rgba(uint4 p, uint32_t *red, uint32_t *green,
                                                      uint32_t *blue)
{
    uint32_t first = __byte_perm(p.x, p.y, 0x5140), second = __byte_perm(p.z, p.w, 0x5140);
    *red = __byte_perm(first, second, 0x5410);
    *green = __byte_perm(first, second, 0x7632);
    *blue = __byte_perm(__byte_perm(p.x, p.y, 0x0062), __byte_perm(p.z, p.w, 0x0062), 0x5410);
}

static __device__ __forceinline__ uint4 tile_mix_rgba(uint32_t red, uint32_t green, uint32_t blue,
                                                      uint4 alpha)
{
    uint32_t first = __byte_perm(red, green, 0x5140), second = __byte_perm(red, green, 0x7362);
    return make_uint4(__byte_perm(__byte_perm(first, blue, 0x0410), alpha.x, 0x7210),
                      __byte_perm(__byte_perm(first, blue, 0x0532), alpha.y, 0x7210),
                      __byte_perm(__byte_perm(second, blue, 0x0610), alpha.z, 0x7210),
                      __byte_perm(__byte_perm(second, blue, 0x0732), alpha.w, 0x7210));
}

/* Three rows from `first` on: 90 pieces of 16 bytes, three a lane. */
static __device__ __forceinline__ void tile_take_rgb(const tile_args &a, int x0, int top,
                                                     int first, int rows, int lane, uint4 *held)
{
    constexpr int pieces = TILE_PITCH * 3 / 16;
#pragma unroll
    for (int j = 0; j < 3; j++) {
        int piece = lane + j * WARP, row = piece / pieces;
        held[j] = make_uint4(0, 0, 0, 0);
        if (row < 3 && first + row < rows)
            held[j] = tile_piece(a, top + first + row,
                                 (x0 - TILE_MARGIN) * 3 + (piece - row * pieces) * 16,
                                 a.width * 3);
    }
}

/* Three rows a warp at a time, the next three in flight meanwhile; 30 lanes take 48 bytes each. */
template <int WARPS, int ROWS>
static __device__ __forceinline__ void tile_load_rgb(tile_memory<3, WARPS, ROWS> &memory,
                                                     const tile_args &a, int x0, int top,
                                                     int rows)
{
    constexpr int groups = TILE_PITCH / 16;
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint4 *stage = reinterpret_cast<uint4 *>(memory.stage[warp]);
    uint4 held[3];
    tile_take_rgb(a, x0, top, warp * 3, rows, lane, held);
    for (int first = warp * 3; first < rows; first += WARPS * 3) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < 3; j++)
            stage[lane + j * WARP] = held[j];
        tile_take_rgb(a, x0, top, first + WARPS * 3, rows, lane, held);
        __syncwarp();
        int row = first + lane / groups, group = lane % groups;
        if (lane >= 3 * groups || row >= rows)
            continue;
        uint4 u = stage[lane * 3], v = stage[lane * 3 + 1], w = stage[lane * 3 + 2];
        uint4 red, green, blue;
        tile_sort_rgb(u.x, u.y, u.z, &red.x, &green.x, &blue.x);
        tile_sort_rgb(u.w, v.x, v.y, &red.y, &green.y, &blue.y);
        tile_sort_rgb(v.z, v.w, w.x, &red.z, &green.z, &blue.z);
        tile_sort_rgb(w.y, w.z, w.w, &red.w, &green.w, &blue.w);
        *reinterpret_cast<uint4 *>(&memory.plane[0][row][group * 16]) = red;
        *reinterpret_cast<uint4 *>(&memory.plane[1][row][group * 16]) = green;
        *reinterpret_cast<uint4 *>(&memory.plane[2][row][group * 16]) = blue;
    }
}

/* Gray, and colours with alpha: pieces of 16 bytes, several of a thread in flight. */
template <int C, int WARPS, int ROWS>
static __device__ __forceinline__ void tile_load_words(tile_memory<C, WARPS, ROWS> &memory,
                                                       const tile_args &a, int x0, int top,
                                                       int rows)
{
    constexpr int pieces = TILE_PITCH * C / 16, threads = WARPS * WARP;
    constexpr int rounds = (ROWS * pieces + threads - 1) / threads, batch = rounds < 4 ? rounds : 4;
    for (int first = threadIdx.x; first < rows * pieces; first += threads * batch) {
        uint4 held[batch];
#pragma unroll
        for (int k = 0; k < batch; k++) {
            int i = first + k * threads, row = i / pieces, piece = i - row * pieces;
            held[k] = make_uint4(0, 0, 0, 0);
            if (row < rows)
                held[k] = tile_piece(a, top + row, (x0 - TILE_MARGIN) * C + piece * 16,
                                     a.width * C);
        }
#pragma unroll
        for (int k = 0; k < batch; k++) {
            int i = first + k * threads, row = i / pieces, piece = i - row * pieces;
            if (row >= rows)
                continue;
            if constexpr (C == 1) {
                *reinterpret_cast<uint4 *>(&memory.plane[0][row][piece * 16]) = held[k];
            } else {
                uint32_t red, green, blue;
                tile_sort_rgba(held[k], &red, &green, &blue);
                *reinterpret_cast<uint32_t *>(&memory.plane[0][row][piece * 4]) = red;
                *reinterpret_cast<uint32_t *>(&memory.plane[1][row][piece * 4]) = green;
                *reinterpret_cast<uint32_t *>(&memory.plane[2][row][piece * 4]) = blue;
            }
        }
    }
}

/* The columns outside the image, `across` of them on either side, where the tile has them: they
 * mirror or repeat columns that the tile has too, as `across` is less than its margin. */
template <int C, int WARPS, int ROWS>
static __device__ void tile_make_sides(tile_memory<C, WARPS, ROWS> &memory, const tile_args &a,
                                       int x0, int rows, int across)
{
    for (int i = threadIdx.x; i < rows * 2 * across; i += WARPS * WARP) {
        int row = i / (2 * across), k = i - row * 2 * across;
        int x = k < across ? -1 - k : a.width + k - across;
        if (x < x0 - TILE_MARGIN || x >= x0 + TILE_WIDTH + TILE_MARGIN)
            continue;
        int inside = border_inside(x, a.width, a.border);
#pragma unroll
        for (int c = 0; c < memory.planes; c++) {
            uint8_t *pixels = memory.plane[c][row];
            pixels[x - x0 + TILE_MARGIN] = inside < 0 ? 0 : pixels[inside - x0 + TILE_MARGIN];
        }
    }
}

/* Fills `rows` rows of the planes; the first is row `top` of the image. All threads call it, and
 * may read the planes when it returns. */
template <int C, int WARPS, int ROWS>
static __device__ __forceinline__ void tile_load(tile_memory<C, WARPS, ROWS> &memory,
                                                 const tile_args &a, int x0, int top, int rows,
                                                 int across)
{
    if constexpr (C == 3)
        tile_load_rgb(memory, a, x0, top, rows);
    else
        tile_load_words(memory, a, x0, top, rows);
    __syncthreads();
    if (x0 == 0 || a.width - x0 < TILE_WIDTH + across) {
        tile_make_sides(memory, a, x0, rows, across);
        __syncthreads();
    }
}

/* Four results at column x0 + 4 lane of row y0 + row: gray is written, colours go into their
 * plane, whose rows nobody may still want to read. */
template <int C, int WARPS, int ROWS>
static __device__ __forceinline__ void tile_put(tile_memory<C, WARPS, ROWS> &memory,
                                                const tile_args &a, int x0, int y0, int row,
                                                int channel, int lane, uint32_t four)
{
    if constexpr (C == 1) {
        int x = x0 + lane * 4;
        if (x < a.width && y0 + row < a.height)
            *reinterpret_cast<uint32_t *>(a.to + (size_t)(y0 + row) * a.to_stride + x) = four;
    } else {
        *reinterpret_cast<uint32_t *>(&memory.plane[channel][row][TILE_MARGIN + lane * 4]) = four;
    }
}

/* Writes `rows` rows of colour out of the planes. All threads call it. */
template <int C, int WARPS, int ROWS>
static __device__ __forceinline__ void tile_store(tile_memory<C, WARPS, ROWS> &memory,
                                                  const tile_args &a, int x0, int y0, int rows)
{
    if constexpr (C == 1)
        return;
    __syncthreads();
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    if constexpr (C == 3) {
        constexpr int groups = TILE_WIDTH / 16, pieces = TILE_WIDTH * 3 / 16;
        uint4 *stage = reinterpret_cast<uint4 *>(memory.stage[warp]);
        for (int first = warp * 4; first < rows; first += WARPS * 4) {
            int row = first + lane / groups, at = TILE_MARGIN + lane % groups * 16;
            __syncwarp();
            if (row < rows) {
                uint4 red = *reinterpret_cast<const uint4 *>(&memory.plane[0][row][at]);
                uint4 green = *reinterpret_cast<const uint4 *>(&memory.plane[1][row][at]);
                uint4 blue = *reinterpret_cast<const uint4 *>(&memory.plane[2][row][at]);
                uint4 u, v, w;
                tile_mix_rgb(red.x, green.x, blue.x, &u.x, &u.y, &u.z);
                tile_mix_rgb(red.y, green.y, blue.y, &u.w, &v.x, &v.y);
                tile_mix_rgb(red.z, green.z, blue.z, &v.z, &v.w, &w.x);
                tile_mix_rgb(red.w, green.w, blue.w, &w.y, &w.z, &w.w);
                stage[lane * 3] = u;
                stage[lane * 3 + 1] = v;
                stage[lane * 3 + 2] = w;
            }
            __syncwarp();
#pragma unroll
            for (int j = 0; j < 3; j++) {
                int piece = lane + j * WARP, line = first + piece / pieces;
                int offset = x0 * 3 + piece % pieces * 16;
                if (line < rows && offset < a.width * 3)
                    *reinterpret_cast<uint4 *>(a.to + (size_t)(y0 + line) * a.to_stride +
                                               offset) = stage[piece];
            }
        }
    } else {
        for (int row = warp; row < rows; row += WARPS) {
            int x = x0 + lane * 4, at = TILE_MARGIN + lane * 4;
            if (x >= a.width)
                continue;
            uint4 source = __ldg(reinterpret_cast<const uint4 *>(
                a.from + (size_t)(y0 + row) * a.from_stride + x * 4));
            *reinterpret_cast<uint4 *>(a.to + (size_t)(y0 + row) * a.to_stride + x * 4) =
                tile_mix_rgba(*reinterpret_cast<const uint32_t *>(&memory.plane[0][row][at]),
                              *reinterpret_cast<const uint32_t *>(&memory.plane[1][row][at]),
                              *reinterpret_cast<const uint32_t *>(&memory.plane[2][row][at]),
                              source);
        }
    }
}

#endif
