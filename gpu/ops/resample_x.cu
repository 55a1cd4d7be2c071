/*
 * resample_x.cu - weighted means along rows, on the device (resample.cuh).
 *
 * A warp computes 16 rows of a strip, which is several tiles of 8 outputs. It reads the chunks of
 * the strip from left to right, through a ring in shared memory. Each chunk is sorted by channel
 * once, and then multiplied for all tiles that have weights for it. If two outputs are at least one
 * pixel of the source apart, no more than two tiles have weights on both sides of a boundary
 * between chunks. If they are nearer, chunks overlap by half, so that each tile needs one chunk.
 */
#include <math.h>

#include <cuda_pipeline.h>

#include "gpu/ops/resample.cuh"

#define ROWS    16
#define OUTPUTS 8
/* The most tiles per block, and the most weights in shared memory, in chunks of a tile. */
#define STRIP 16
#define SLOTS 64
/* Chunks in the ring. Those of gray are small. */
template <int C> constexpr int RING = C == 1 ? 8 : 4;

/* Bytes that a lane copies at once. */
#define PIECE 16

template <int C> using x_chunk = uint8_t[ROWS][CHUNK * C];

/* Shared memory of a block. */
template <int C> struct x_memory {
    alignas(16) x_chunk<C> ring[WARPS][RING<C>];
    alignas(8) uint8_t stage[C == 3 ? WARPS : 1][ROWS][OUTPUTS * C];
    struct {
        int from, to; /* the first and the last chunk */
    } tiles[STRIP];
    uint2 weights[][DIGITS][WARP]; /* as many as the launcher says */
};

/* The part of the result that a warp computes. */
struct x_walk {
    int tile0, tiles; /* of the strip */
    int start;        /* the first pixel of the source */
    int chunks, y0, lane, warp;
};

SIMT int x_tile_end(const resample_args &a, int tile)
{
    return band_end(a, tile * OUTPUTS + OUTPUTS - 1, a.width, a.from_width);
}

SIMT int x_first_chunk(const resample_args &a, const x_walk &walk, int tile)
{
    return (__ldg(a.first + tile * OUTPUTS) - walk.start) >> a.step_bits;
}

SIMT int x_last_chunk(const resample_args &a, const x_walk &walk, int tile)
{
    int step = 1 << a.step_bits;
    return step < CHUNK ? x_first_chunk(a, walk, tile)
                        : (x_tile_end(a, tile) - 1 - walk.start) >> a.step_bits;
}

SIMT x_walk x_walk_of(const resample_args &a)
{
    x_walk walk;
    walk.lane = threadIdx.x % WARP;
    walk.warp = threadIdx.x / WARP;
    walk.y0 = (blockIdx.y * WARPS + walk.warp) * ROWS;
    walk.tile0 = blockIdx.x * a.strip;
    walk.tiles = min(a.strip, (a.width + OUTPUTS - 1) / OUTPUTS - walk.tile0);
    walk.start = __ldg(a.first + walk.tile0 * OUTPUTS) >> a.step_bits << a.step_bits;
    walk.chunks = x_last_chunk(a, walk, walk.tile0 + walk.tiles - 1) + 1;
    return walk;
}

/* Where a lane copies C pieces of each chunk from, in bytes, and the first one to. */
template <int C> struct x_pieces {
    uint32_t from[C];
    int left[C]; /* bytes of the row from the piece on, in chunk 0 */
    uint8_t *to;
};

template <int C>
SIMT x_pieces<C> x_pieces_of(x_memory<C> &memory, const resample_args &a, const x_walk &walk)
{
    constexpr int across = CHUNK * C / PIECE;
    x_pieces<C> pieces;
    unrolled_for (int j = 0; j < C; j++) {
        unsigned i = walk.lane + j * WARP;
        int y = min(walk.y0 + (int)(i / across), a.height - 1);
        int offset = walk.start * C + (int)(i % across) * PIECE;
        pieces.from[j] = (uint32_t)((size_t)y * a.from_stride) + offset;
        pieces.left[j] = a.from_width * C - offset;
    }
    /* In odd rows, the halves of RGBA are swapped, against bank conflicts. */
    int first = C == 4 ? walk.lane ^ (walk.lane / across & 1) * 4 : walk.lane;
    pieces.to = memory.ring[walk.warp][0][0] + first * PIECE;
    return pieces;
}

/* Starts loading a chunk, if the strip has it. */
template <int C>
SIMT void x_send(const resample_args &a, const x_walk &walk, const x_pieces<C> &pieces, int chunk)
{
    int offset = (chunk * C) << a.step_bits;
    uint8_t *to = pieces.to + chunk % RING<C> * sizeof(x_chunk<C>);
    if (chunk < walk.chunks) {
        unrolled_for (int j = 0; j < C; j++)
            if (offset < pieces.left[j])
                __pipeline_memcpy_async(to + j * WARP * PIECE, a.from + pieces.from[j] + offset,
                                        PIECE);
    }
    __pipeline_commit();
}

/* Pixel `lane` of a chunk and register `high` of its weights: the first of the four pixels. */
template <int C> SIMT int x_pixel(int lane, int high)
{
    int t = lane % 4;
    return C == 4 ? t * 4 + high * 16 : C == 3 ? t * 8 + high * 2 : t * 8 + high * 4;
}

template <int C> SIMT void x_digits(uint2 (&weights)[DIGITS], const band &band, int pixel, int lane)
{
    constexpr int gap = C == 3 ? 4 : 2;
    uint3 low = digits_of_four<gap>(band, pixel + x_pixel<C>(lane, 0));
    uint3 high = digits_of_four<gap>(band, pixel + x_pixel<C>(lane, 1));
    weights[0] = make_uint2(low.x, high.x);
    weights[1] = make_uint2(low.y, high.y);
    weights[2] = make_uint2(low.z, high.z);
}

/* The lane's weights of a tile for a chunk, from the table. */
template <int C>
SIMT void x_digits_of(uint2 (&weights)[DIGITS], const resample_args &a, const x_walk &walk,
                      int tile, int chunk)
{
    band band = band_of(a, a.width, (walk.tile0 + tile) * OUTPUTS + walk.lane / 4);
    x_digits<C>(weights, band, walk.start + (chunk << a.step_bits), walk.lane);
}

/* Fills in the tiles and, if there is room, their weights. */
template <int C>
SIMT void x_prepare(x_memory<C> &memory, const resample_args &a, const x_walk &walk)
{
    if ((int)threadIdx.x < walk.tiles) {
        int tile = walk.tile0 + threadIdx.x;
        memory.tiles[threadIdx.x] = {x_first_chunk(a, walk, tile), x_last_chunk(a, walk, tile)};
    }
    __syncthreads();
    for (int i = walk.warp; i < walk.tiles * a.chunks; i += WARPS) {
        int tile = i / a.chunks, chunk = memory.tiles[tile].from + i % a.chunks;
        uint2 weights[DIGITS];
        if (chunk > memory.tiles[tile].to)
            continue;
        x_digits_of<C>(weights, a, walk, tile, chunk);
        unrolled_for (int d = 0; d < DIGITS; d++)
            memory.weights[i][d][walk.lane] = weights[d];
    }
    __syncthreads();
}

/* Sorts 8 pixels of the lane by channel. Register 2 q + h has word q of row h. */
SIMT void x_sort_rgb(const uint8_t *at, uint32_t (&planes)[3][4], int h)
{
    const uint2 *pieces = reinterpret_cast<const uint2 *>(at);
    uint2 p = pieces[0], q = pieces[1], r = pieces[2];
    uint32_t a = __byte_perm(p.x, q.y, 0x6521), b = __byte_perm(p.y, r.x, 0x5410);
    planes[0][h] = __byte_perm(p.x, q.y, 0x7430);
    planes[1][h] = __byte_perm(a, b, 0x6240);
    planes[2][h] = __byte_perm(a, b, 0x7351);
    uint32_t c = __byte_perm(p.y, r.x, 0x7632), d = __byte_perm(q.x, r.y, 0x6521);
    planes[0][2 + h] = __byte_perm(c, d, 0x6240);
    planes[1][2 + h] = __byte_perm(c, d, 0x7351);
    planes[2][2 + h] = __byte_perm(q.x, r.y, 0x7430);
}

SIMT void x_sort_rgba(const uint8_t *row, int lane, uint32_t (&planes)[4][4], int h,
                      int premultiply)
{
    unrolled_for (int q = 0; q < 2; q++) {
        uint4 piece = piece_at(row + ((q ^ (lane / 4 & 1)) * 4 + lane % 4) * 16);
        uint32_t pixels[4] = {piece.x, piece.y, piece.z, piece.w}, channels[4];
        if (premultiply)
            unrolled_for (int i = 0; i < 4; i++)
                pixels[i] = premultiply_pixel(pixels[i]);
        transpose(pixels, channels);
        unrolled_for (int c = 0; c < 4; c++)
            planes[c][2 * q + h] = channels[c];
    }
}

/* Loads the lane's pixels of a chunk: 8 pixels of rows lane / 4 and lane / 4 + 8. */
template <int C>
SIMT void x_sort(const x_chunk<C> &chunk, uint32_t (&planes)[C][4], int lane, int premultiply)
{
    unrolled_for (int h = 0; h < 2; h++) {
        const uint8_t *row = chunk[lane / 4 + h * 8];
        if constexpr (C == 4) {
            x_sort_rgba(row, lane, planes, h, premultiply);
        } else if constexpr (C == 3) {
            x_sort_rgb(row + lane % 4 * 24, planes, h);
        } else {
            uint2 pixels = *reinterpret_cast<const uint2 *>(row + lane % 4 * 8);
            planes[0][h] = pixels.x;
            planes[0][2 + h] = pixels.y;
        }
    }
}

template <typename Unit>
SIMT void x_put(const resample_args &a, int y, int offset, int row_bytes, Unit unit)
{
    if (y < a.height)
        row_put(a.to + (size_t)y * a.to_stride, offset, row_bytes, unit);
}

/* Writes a tile of RGB. Rows of a tile have 24 bytes, of which a lane has 6. */
SIMT void x_put_rgb(x_memory<3> &memory, const resample_args &a, const x_walk &walk,
                    const digit_sums (&sums)[3], int offset)
{
    uint8_t(*stage)[OUTPUTS * 3] = memory.stage[walk.warp];
    __syncwarp(); /* the tile before is written */
    unrolled_for (int h = 0; h < 2; h++) {
        int i = 2 * h;
        uint32_t low = pack_bytes(sums_join(sums[0], i), sums_join(sums[1], i),
                                  sums_join(sums[2], i), sums_join(sums[0], i + 1));
        uint32_t high = pack_bytes(sums_join(sums[1], i + 1), sums_join(sums[2], i + 1), 0, 0);
        uint16_t *to =
            reinterpret_cast<uint16_t *>(stage[walk.lane / 4 + 8 * h] + walk.lane % 4 * 6);
        to[0] = (uint16_t)low;
        to[1] = (uint16_t)(low >> 16);
        to[2] = (uint16_t)high;
    }
    __syncwarp();
    int row = walk.lane / 3, at = walk.lane % 3 * 8;
    if (row < ROWS / 2)
        unrolled_for (int h = 0; h < 2; h++) {
            const uint8_t *piece = stage[row + h * 8] + at;
            x_put(a, walk.y0 + row + h * 8, offset + at, a.width * 3,
                  *reinterpret_cast<const uint2 *>(piece));
        }
}

/* Writes the pixels of a tile: of rows lane / 4 and lane / 4 + 8, two outputs. */
template <int C>
SIMT void x_finish(x_memory<C> &memory, const resample_args &a, const x_walk &walk,
                   const digit_sums (&sums)[C], int tile)
{
    int x = (walk.tile0 + tile) * OUTPUTS, pair = x + walk.lane % 4 * 2;
    if constexpr (C == 3) {
        x_put_rgb(memory, a, walk, sums, x * 3);
    } else {
        unrolled_for (int h = 0; h < 2; h++) {
            int y = walk.y0 + walk.lane / 4 + h * 8, i = 2 * h;
            if constexpr (C == 1) {
                uint32_t word = pack_bytes(sums_join(sums[0], i), sums_join(sums[0], i + 1), 0, 0);
                x_put(a, y, pair, a.width, (uint16_t)word);
            } else {
                uint32_t pixels[2];
                unrolled_for (int k = 0; k < 2; k++) {
                    pixels[k] = pack_bytes(sums_join(sums[0], i + k), sums_join(sums[1], i + k),
                                           sums_join(sums[2], i + k), sums_join(sums[3], i + k));
                    if (a.divide)
                        pixels[k] = divide_pixel(pixels[k]);
                }
                x_put(a, y, pair * 4, a.width * 4, make_uint2(pixels[0], pixels[1]));
            }
        }
    }
}

/* Adds a chunk to the sums of a tile. Writes the tile and returns true if it was its last one.
 * STORED: the weights are in shared memory. */
template <int C, bool STORED>
SIMT bool x_add(x_memory<C> &memory, const resample_args &a, const x_walk &walk,
                digit_sums (&sums)[C], const uint32_t (&planes)[C][4], int tile, int chunk)
{
    int from = memory.tiles[tile].from, to = memory.tiles[tile].to;
    uint2 weights[DIGITS];
    if constexpr (STORED) {
        unrolled_for (int d = 0; d < DIGITS; d++)
            weights[d] = memory.weights[tile * a.chunks + chunk - from][d][walk.lane];
    } else {
        x_digits_of<C>(weights, a, walk, tile, chunk);
    }
    if (chunk == from)
        unrolled_for (int c = 0; c < C; c++)
            sums_clear(sums[c]);
    unrolled_for (int c = 0; c < C; c++)
        unrolled_for (int d = 0; d < DIGITS; d++)
            mma_pixels(sums[c][d], planes[c], weights[d]);
    if (chunk == to)
        x_finish<C>(memory, a, walk, sums, tile);
    return chunk == to;
}

template <int C, int N, bool STORED>
static __global__ void __launch_bounds__(THREADS, C == 4 ? 1 : 2)
    resample_x_kernel(const __grid_constant__ several<resample_args, N> all)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    const resample_args &a = several_own(all);
    constexpr int ring = RING<C>;
    x_memory<C> &memory = *static_cast<x_memory<C> *>(dynamic_shared());
    x_walk walk = x_walk_of(a);
    x_pieces<C> pieces = x_pieces_of<C>(memory, a, walk);
    unrolled_for (int chunk = 0; chunk < ring - 1; chunk++)
        x_send<C>(a, walk, pieces, chunk);
    x_prepare<C>(memory, a, walk);
    if (walk.y0 >= a.height)
        return;
    digit_sums even[C], odd[C]; /* of even and of odd tiles */
    int oldest = 0;             /* the first tile that is not finished */
    for (int chunk = 0; chunk < walk.chunks; chunk++) {
        uint32_t planes[C][4];
        __pipeline_wait_prior(ring - 2);
        __syncwarp(); /* all lanes have the chunk, and have read the one before */
        x_send<C>(a, walk, pieces, chunk + ring - 1);
        x_sort<C>(memory.ring[walk.warp][chunk % ring], planes, walk.lane, a.premultiply);
        for (int tile = oldest; tile < walk.tiles && memory.tiles[tile].from <= chunk; tile++)
            oldest += tile % 2 ? x_add<C, STORED>(memory, a, walk, odd, planes, tile, chunk)
                               : x_add<C, STORED>(memory, a, walk, even, planes, tile, chunk);
    }
}

/* ---- launching ---- */

/* Shared memory of a block. */
static size_t x_memory_bytes(uint32_t channels, int slots)
{
    size_t own = channels == 1   ? sizeof(x_memory<1>)
                 : channels == 3 ? sizeof(x_memory<3>)
                                 : sizeof(x_memory<4>);
    return own + (size_t)slots * sizeof(uint2[DIGITS][WARP]);
}

/* The most slots for which the device has shared memory. */
static int x_slots(uint32_t channels)
{
    int most = device_attribute<cudaDevAttrMaxSharedMemoryPerBlockOptin>(), slots = SLOTS;
    while (slots > 0 && x_memory_bytes(channels, slots) > (size_t)most)
        slots--;
    return slots;
}

static dim3 describe_x(const struct pass_call &call, resample_args *args)
{
    const struct resample *resample = resample_of(call);
    *args = resample_args_of(call, call.to.width);
    bool shrinks = resample->scale >= 1;
    int tiles = (args->width + OUTPUTS - 1) / OUTPUTS, slots = x_slots(call.from.channels);
    unsigned down = (unsigned)(args->height + ROWS * WARPS - 1) / (ROWS * WARPS);
    /* The first pixels of outputs are rounded, so their distance may be one larger. */
    int span = (int)ceil(resample->scale * (OUTPUTS - 1)) + 1 + args->reach;
    args->step_bits = shrinks ? 5 : 4;
    args->chunks = shrinks ? (span + CHUNK - 2) / CHUNK + 1 : 1;
    if (args->chunks * 4 > slots)
        args->chunks = 0;
    args->strip = args->chunks ? min(slots / args->chunks, STRIP) : STRIP / 2;
    /* Strips overlap in the source, so they are as wide as the device's multiprocessors allow. */
    auto strips = [&] { return (unsigned)((tiles + args->strip - 1) / args->strip); };
    while (args->strip > 2 && strips() * down < (unsigned)multiprocessors())
        args->strip = (args->strip + 1) / 2;
    args->strip = (tiles + (int)strips() - 1) / (int)strips();
    return dim3(strips(), down);
}

template <int C, int N, bool STORED>
static cudaError_t launch_x(const several<resample_args, N> &all, dim3 grid, int slots,
                            cudaStream_t stream)
{
    auto kernel = resample_x_kernel<C, N, STORED>;
    /* The most that any launch takes, because other threads launch this kernel, too. */
    cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              (int)x_memory_bytes(C, x_slots(C)));
    return status == cudaSuccess
               ? launch_kernel(kernel, grid, THREADS, x_memory_bytes(C, slots), stream, all)
               : cudaGetLastError();
}

/* If shared memory has no room for the weights of one of the images, none are stored. */
template <int C, int N>
static cudaError_t launch_x(several<resample_args, N> &all, dim3 grid, cudaStream_t stream)
{
    int slots = 0;
    bool stored = true;
    for (unsigned i = 0; i < grid.z; i++) {
        stored &= all.of[i].chunks > 0;
        slots = max(slots, all.of[i].strip * all.of[i].chunks);
    }
    if (stored)
        return launch_x<C, N, true>(all, grid, slots, stream);
    for (resample_args &own : all.of)
        own.chunks = 0;
    return launch_x<C, N, false>(all, grid, 0, stream);
}

PASS_LAUNCHER_MANY(resample_x_cuda)
{
    return launch_several<resample_args>(calls, count, describe_x, [&](auto &all, dim3 grid) {
        return by_channels(calls[0].from.channels,
                           [&](auto c) { return launch_x<c>(all, grid, stream); });
    });
}
