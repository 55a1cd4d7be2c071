/*
 * resample_y.cu - weighted means along columns, on the device (resample.cuh).
 *
 * A warp computes 16 rows of a few tiles of 8 columns, one or several times with the same weights.
 * Its columns are bytes, for any number of channels. Their source is either packed by resample_x
 * (resample.h), and then goes through a ring in shared memory, or an image: then a lane loads words
 * of four successive rows, and transposes them to four columns.
 */
#include <math.h>

#include <cuda_pipeline.h>

#include "gpu/ops/resample.cuh"

#define Y_WARPS 8
#define ROWS    16
/* Chunks whose weights are in shared memory at a time. */
#define CHUNKS 16
/* Chunks of an image that a warp loads ahead. */
#define AHEAD 2
/* Bytes of the ring of a warp, and bytes that a lane copies to it at once. */
#define RING_BYTES 3072
#define PIECE      16

/* The kinds of sources. TILES and BYTES: what a warp computes at a time, and how many bytes of the
 * result's rows that is. BLOCKS: that a multiprocessor runs at the same time. */
struct y_image {
    static constexpr bool PACKED = false;
    static constexpr int TILES = 4, BYTES = 32, BLOCKS = 2;
};

template <int C> struct y_packed {
    static constexpr bool PACKED = true;
    static constexpr int CHANNELS = C, TILES = RESAMPLE_PACKED_TILES(C) * C;
    static constexpr int BYTES = TILES * RESAMPLE_PACKED_PIXELS, BLOCKS = C == 4 ? 2 : 3;
    static constexpr int CHUNK_BYTES = BYTES * CHUNK, RING = RING_BYTES / CHUNK_BYTES;
};

/* The weights of a tile for CHUNKS chunks, and the rings. */
template <typename Source> struct y_memory {
    uint4 weights[CHUNKS][DIGITS][WARP];
    alignas(16) uint8_t ring[Y_WARPS][Source::PACKED ? RING_BYTES : PIECE];
};

/* What a lane loads next: rows from `row` on, at `from`; x is the warp's first byte in the row. */
struct y_place {
    const uint8_t *from;
    int row, x, chunk;
};

/* ---- loading ---- */

/* The first chunk of an image at byte x, of rows from row0 on. Columns at the right end may be
 * padding. */
SIMT y_place y_place_of(const resample_args &a, int x, int row0)
{
    uint32_t stride = (uint32_t)a.from_stride, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    uint32_t inside = min((uint32_t)x + g * 4, (uint32_t)(a.width - 1) / 4 * 4);
    return {a.from + (((uint32_t)row0 + t * 4) * stride + inside), row0 + (int)t * 4, x, 0};
}

/* Loads the lane's words of a chunk, and moves to the next one. row0, chunks: of the tiles. Rows
 * beyond the image have weights of 0. */
SIMT void y_load(uint32_t (&words)[8], const resample_args &a, y_place &place, int row0, int chunks)
{
    uint32_t stride = (uint32_t)a.from_stride;
    int last = a.from_height - 1 - place.row;
    if (last >= 3 + 16) {
        unrolled_for (int i = 0; i < 8; i++)
            words[i] = __ldg(&word_at(place.from + (size_t)stride * (i % 4 + i / 4 * 16)));
    } else {
        unrolled_for (int i = 0; i < 8; i++)
            words[i] = __ldg(&word_at(place.from + (ptrdiff_t)min(i % 4 + i / 4 * 16, last) *
                                                       (ptrdiff_t)stride));
    }
    place.from += (size_t)stride * CHUNK;
    place.row += CHUNK;
    if (++place.chunk == chunks)
        place = y_place_of(a, place.x + Y_WARPS * y_image::BYTES, row0);
}

/* Sorts the words of an image: words 2 j and 2 j + 1 are then of column j. */
SIMT void y_sort(uint32_t (&words)[8], int premultiply)
{
    uint32_t low[4], high[4];
    if (premultiply)
        unrolled_for (int i = 0; i < 8; i++)
            words[i] = premultiply_pixel(words[i]);
    transpose({words[0], words[1], words[2], words[3]}, low);
    transpose({words[4], words[5], words[6], words[7]}, high);
    unrolled_for (int j = 0; j < 4; j++) {
        words[2 * j] = low[j];
        words[2 * j + 1] = high[j];
    }
}

/* Starts copying a packed chunk to a place in the ring: eight rows of words. row: the first of
 * them; x: the warp's first column. Rows beyond the image have weights of 0. */
template <typename Source>
SIMT void y_send(uint8_t *to, const resample_args &a, uint32_t row, int x)
{
    constexpr int across = Source::BYTES * 4 / PIECE, pieces = Source::CHUNK_BYTES / PIECE;
    uint32_t last = (uint32_t)(a.from_height - 1) / RESAMPLE_PACKED_ROWS * 4 + 3;
    unrolled_for (int j = 0; j < pieces; j += WARP) {
        int i = (int)(threadIdx.x % WARP) + j;
        uint32_t offset = min(row + (uint32_t)(i / across), last) * (uint32_t)a.from_stride +
                          (uint32_t)(x * 4 + i % across * PIECE);
        if (i < pieces)
            __pipeline_memcpy_async(to + i * PIECE, a.from + offset, PIECE);
    }
}

/* Loads the lane's words of a packed chunk. */
template <int N> SIMT void y_read(uint32_t (&words)[N], const uint8_t *ring)
{
    constexpr int row = N / 2 * RESAMPLE_PACKED_PIXELS;
    const uint32_t *own = &word_at(ring) + threadIdx.x % 4 * row + threadIdx.x % WARP / 4;
    unrolled_for (int j = 0; j < N / 2; j++) {
        words[2 * j] = own[j * RESAMPLE_PACKED_PIXELS];
        words[2 * j + 1] = own[4 * row + j * RESAMPLE_PACKED_PIXELS];
    }
}

/* ---- products ---- */

/* Fills in the weights of rows y0 to y0 + 15 of the result, from this pixel of the source on.
 * first: of rows y0 + lane / 4 and 8 rows later. */
template <typename Source>
SIMT void y_prepare(y_memory<Source> &memory, const resample_args &a, int y0, const int (&first)[2],
                    int start, int chunks)
{
    int lane = threadIdx.x % WARP;
#pragma unroll 2
    for (int i = warp_index(); i < chunks * 4; i += Y_WARPS) {
        int chunk = i / 4, r = i % 4;
        band band = band_of(a, a.height, y0 + lane / 4 + r % 2 * 8, r % 2 ? first[1] : first[0]);
        int pixel = start + chunk * CHUNK + lane % 4 * (Source::PACKED ? 2 : 4) + r / 2 * 16;
        uint3 digits = digits_of_four < Source::PACKED ? 8 : 2 > (band, pixel);
        uint32_t *to = reinterpret_cast<uint32_t *>(&memory.weights[chunk][0][lane]) + r;
        to[0] = digits.x;
        to[WARP * 4] = digits.y;
        to[WARP * 8] = digits.z;
    }
}

/* Adds the products of a chunk. weights: those of the lane. */
template <int N>
SIMT void y_add(digit_sums (&sums)[N], const uint32_t (&words)[2 * N], const uint4 *weights)
{
    unrolled_for (int d = 0; d < DIGITS; d++) {
        uint4 own = weights[d * WARP];
        unrolled_for (int j = 0; j < N; j++)
            mma_weights(sums[j][d], own, words[2 * j], words[2 * j + 1]);
    }
}

/* ---- writing ---- */

/* Writes two words of rows y and y + 8. */
SIMT void y_put(const resample_args &a, uint32_t (&words)[4], int x, int y)
{
    if (a.divide)
        unrolled_for (int i = 0; i < 4; i++)
            words[i] = divide_pixel(words[i]);
    unrolled_for (int h = 0; h < 2; h++)
        if (y + 8 * h < a.height)
            row_put(a.to + (size_t)(y + 8 * h) * a.to_stride, x, a.width,
                    make_uint2(words[2 * h], words[2 * h + 1]));
}

/* Writes 8 bytes per row of four tiles: each has every fourth column of an image, or a channel of
 * RGBA, whose words are pixels. */
SIMT void y_finish_words(const resample_args &a, const digit_sums (&sums)[4], int x, int y)
{
    uint32_t words[4];
    unrolled_for (int i = 0; i < 4; i++)
        words[i] = pack_bytes(sums_join(sums[0], i), sums_join(sums[1], i), sums_join(sums[2], i),
                              sums_join(sums[3], i));
    y_put(a, words, x + threadIdx.x % 4 * 8, y);
}

/* Writes three tiles of gray or RGB, 24 bytes per row, which the warp sorts by rows in `stage`. */
template <int C>
SIMT void y_finish_bytes(const resample_args &a, const digit_sums (&sums)[3], uint8_t *stage, int x,
                         int y0)
{
    constexpr int pieces = 3, row = pieces * sizeof(uint2);
    int lane = threadIdx.x % WARP;
    __syncwarp(); /* all lanes have read the chunk that was there */
    unrolled_for (int j = 0; j < 3; j += C) {
        unrolled_for (int h = 0; h < 2; h++) {
            const digit_sums &r = sums[j], &g = sums[C == 3 ? 1 : j], &b = sums[C == 3 ? 2 : j];
            int i = 2 * h, at = (lane / 4 + 8 * h) * row + j * 8 + lane % 4 * (2 * C);
            uint16_t *to = reinterpret_cast<uint16_t *>(stage + at);
            if constexpr (C == 1) {
                to[0] = (uint16_t)pack_bytes(sums_join(r, i), sums_join(r, i + 1), 0, 0);
            } else {
                uint32_t word = pack_bytes(sums_join(r, i), sums_join(g, i), sums_join(b, i),
                                           sums_join(r, i + 1));
                to[0] = (uint16_t)word;
                to[1] = (uint16_t)(word >> 16);
                to[2] = (uint16_t)pack_bytes(sums_join(g, i + 1), sums_join(b, i + 1), 0, 0);
            }
        }
    }
    __syncwarp();
    unrolled_for (int j = 0; j < ROWS * pieces; j += WARP) {
        int i = lane + j, y = y0 + i / pieces;
        if (i < ROWS * pieces && y < a.height)
            row_put(a.to + (size_t)y * a.to_stride, x + i % pieces * 8, a.width,
                    reinterpret_cast<const uint2 *>(stage)[i]);
    }
}

/* Writes the tiles, and clears the sums. stage: 384 bytes of shared memory of the warp. */
template <typename Source>
SIMT void y_finish(const resample_args &a, digit_sums (&sums)[Source::TILES], uint8_t *stage, int x,
                   int y0)
{
    if constexpr (Source::TILES == 4)
        y_finish_words(a, sums, x, y0 + threadIdx.x % WARP / 4);
    else
        y_finish_bytes<Source::CHANNELS>(a, sums, stage, x, y0);
    unrolled_for (int j = 0; j < Source::TILES; j++)
        sums_clear(sums[j]);
}

/* ---- walking ---- */

/* What a warp computes with the weights that are in shared memory. */
struct y_walk {
    int x, y0;       /* of the result: the first byte, and the first row */
    int row0;        /* the first row of the source */
    int count, left; /* chunks of a place, and of all places */
    bool ends;       /* these are the last chunks of each place */
};

SIMT void y_walk_image(y_memory<y_image> &memory, const resample_args &a,
                       digit_sums (&sums)[y_image::TILES], y_walk walk)
{
    uint32_t words[AHEAD][2 * y_image::TILES];
    y_place place = y_place_of(a, walk.x, walk.row0);
    unrolled_for (int k = 0; k < AHEAD; k++)
        if (k < walk.left)
            y_load(words[k], a, place, walk.row0, walk.count);
    for (int chunk = 0; walk.left > 0; walk.left -= AHEAD) {
        unrolled_for (int k = 0; k < AHEAD; k++) {
            if (k == walk.left)
                break;
            y_sort(words[k], a.premultiply);
            y_add(sums, words[k], &memory.weights[chunk][0][threadIdx.x % WARP]);
            if (k + AHEAD < walk.left)
                y_load(words[k], a, place, walk.row0, walk.count);
            if (++chunk < walk.count)
                continue;
            chunk = 0;
            if (walk.ends)
                y_finish<y_image>(a, sums, NULL, walk.x, walk.y0);
            walk.x += Y_WARPS * y_image::BYTES;
        }
    }
}

/* The chunk that a warp sends to its ring next. */
struct y_sender {
    int sent, chunk, x;
};

/* Sends the next chunk, if there is one. */
template <typename Source>
SIMT void y_send_next(y_sender &sender, y_memory<Source> &memory, const resample_args &a,
                      const y_walk &walk)
{
    uint8_t *ring = memory.ring[warp_index()];
    if (sender.sent < walk.left)
        y_send<Source>(ring + sender.sent % Source::RING * Source::CHUNK_BYTES, a,
                       (uint32_t)(walk.row0 / 4 + sender.chunk * (CHUNK / 4)), sender.x);
    __pipeline_commit();
    sender.sent++;
    if (++sender.chunk == walk.count) {
        sender.chunk = 0;
        sender.x += Y_WARPS * Source::BYTES;
    }
}

/* Sends the first chunks. */
template <typename Source>
SIMT y_sender y_begin(y_memory<Source> &memory, const resample_args &a, const y_walk &walk)
{
    y_sender sender = {0, 0, walk.x};
    unrolled_for (int k = 0; k < Source::RING - 1; k++)
        y_send_next<Source>(sender, memory, a, walk);
    return sender;
}

template <typename Source>
SIMT void y_walk_packed(y_memory<Source> &memory, const resample_args &a,
                        digit_sums (&sums)[Source::TILES], y_sender sender, y_walk walk)
{
    uint8_t *ring = memory.ring[warp_index()];
    int chunk = 0;
    for (int i = 0; i < walk.left; i++) {
        uint32_t words[2 * Source::TILES];
        __pipeline_wait_prior(Source::RING - 2);
        __syncwarp(); /* all lanes have the chunk, and have read the one before */
        y_send_next<Source>(sender, memory, a, walk);
        uint8_t *own = ring + i % Source::RING * Source::CHUNK_BYTES;
        y_read(words, own);
        y_add(sums, words, &memory.weights[chunk][0][threadIdx.x % WARP]);
        if (++chunk < walk.count)
            continue;
        chunk = 0;
        if (walk.ends)
            y_finish<Source>(a, sums, own, walk.x, walk.y0);
        walk.x += Y_WARPS * Source::BYTES;
    }
}

/* width: of a row, in bytes. */
template <typename Source, int N>
static __global__ void __launch_bounds__((Y_WARPS * WARP), Source::BLOCKS)
    resample_y_kernel(const __grid_constant__ several<resample_args, N> all)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    constexpr int across = Y_WARPS * Source::BYTES;
    const resample_args &a = several_own(all);
    __shared__ y_memory<Source> memory;
    int lane = threadIdx.x % WARP, y0 = blockIdx.y * ROWS;
    int x = blockIdx.x * a.strip * across + warp_index() * Source::BYTES;
    int first[2] = {band_first(a, a.height, y0 + lane / 4),
                    band_first(a, a.height, y0 + lane / 4 + 8)};
    int start = __ldg(a.first + y0) & (Source::PACKED ? -RESAMPLE_PACKED_ROWS : -1);
    int end = band_end(a, y0 + ROWS - 1, a.height, a.from_height);
    int chunks = (end - start + CHUNK - 1) / CHUNK;
    /* With more than one place, all chunks are in the first part. */
    int most = chunks > CHUNKS ? 1 : a.strip;
    int places = x < a.width ? min(most, (a.width - x - 1) / across + 1) : 0;
    digit_sums sums[Source::TILES];
    unrolled_for (int j = 0; j < Source::TILES; j++)
        sums_clear(sums[j]);
    for (int chunk0 = 0; chunk0 < chunks; chunk0 += CHUNKS) {
        int count = min(chunks - chunk0, CHUNKS), row0 = start + chunk0 * CHUNK;
        y_walk walk = {x, y0, row0, count, places * count, chunk0 + count == chunks};
        y_sender sender = {};
        __syncthreads(); /* all warps have read the weights before, and all lanes the last chunk */
        if constexpr (Source::PACKED)
            sender = y_begin<Source>(memory, a, walk);
        y_prepare<Source>(memory, a, y0, first, row0, count);
        __syncthreads();
        if constexpr (Source::PACKED)
            y_walk_packed<Source>(memory, a, sums, sender, walk);
        else
            y_walk_image(memory, a, sums, walk);
    }
}

/* ---- launching ---- */

/* The chunks of a place, at most. Those of packed rows start at a multiple of
 * RESAMPLE_PACKED_ROWS. */
static int y_chunks(const resample_args &a, double scale, bool packed)
{
    int before = packed ? RESAMPLE_PACKED_ROWS - 1 : 0;
    return ((int)ceil(scale * (ROWS - 1)) + a.reach + before + CHUNK) / CHUNK;
}

/* How long the pass takes in all, in the time of a chunk. */
static double y_work(const struct pass_call &call)
{
    double places = (double)call.to.width * call.to.channels * call.to.height;
    resample_args args = resample_args_of(call, call.to.height);
    return places * (y_chunks(args, resample_of(call)->scale, resample_of(call)->packed) + 1);
}

/* The places per warp with which a launch ends first. blocks: that run at the same time. A block
 * takes about as long to start as for 8 chunks. */
template <typename Source>
static int y_strip(const resample_args &a, unsigned blocks, double scale, unsigned down)
{
    constexpr double start = 8;
    constexpr unsigned across = Y_WARPS * Source::BYTES;
    int chunks = y_chunks(a, scale, Source::PACKED), best = 1;
    unsigned columns = ((unsigned)a.width + across - 1) / across;
    double least = INFINITY;
    for (unsigned strip = 1; strip <= columns && chunks <= CHUNKS; strip++) {
        double time =
            launch_time((columns + strip - 1) / strip * down, blocks, start + strip * (chunks + 1));
        best = time < least ? (int)strip : best;
        least = time < least ? time : least;
    }
    return best;
}

/* blocks: that run at the same time, of this pass. */
template <typename Source>
static dim3 describe_y(const struct pass_call &call, unsigned blocks, resample_args *args)
{
    *args = resample_args_of(call, call.to.height);
    args->width = (int)(call.to.width * call.to.channels);
    if (Source::PACKED)
        args->from_stride = resample_packed_stride(call.to.width, call.to.channels);
    unsigned down = (unsigned)(args->height + ROWS - 1) / ROWS;
    args->strip = y_strip<Source>(*args, blocks, resample_of(call)->scale, down);
    unsigned bytes = (unsigned)args->strip * Y_WARPS * Source::BYTES;
    return dim3(((unsigned)args->width + bytes - 1) / bytes, down);
}

template <typename Source, int N>
static cudaError_t launch_y(const several<resample_args, N> &all, dim3 grid, cudaStream_t stream)
{
    return launch_kernel(resample_y_kernel<Source, N>, grid, (Y_WARPS * WARP), 0, stream, all);
}

/* Only packed sources share a launch: others are rare. */
template <typename Source>
static cudaError_t launch_all(const struct pass_call *calls, uint32_t count, cudaStream_t stream)
{
    unsigned places = launch_places(Source::BLOCKS);
    double work = 0;
    for (uint32_t i = 0; i < count && Source::PACKED; i++)
        work += y_work(calls[i]);
    auto describe = [&](const struct pass_call &call, resample_args *args) {
        unsigned own = Source::PACKED ? launch_share(places, y_work(call), work) : places;
        return describe_y<Source>(call, own, args);
    };
    auto launch = [&](const auto &all, dim3 grid) { return launch_y<Source>(all, grid, stream); };
    return launch_several<resample_args, Source::PACKED>(calls, count, describe, launch);
}

PASS_LAUNCHER_MANY(resample_y_cuda)
{
    if (!resample_of(calls[0])->packed)
        return launch_all<y_image>(calls, count, stream);
    return by_channels(calls[0].from.channels,
                       [&](auto c) { return launch_all<y_packed<c>>(calls, count, stream); });
}
