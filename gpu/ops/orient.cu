/*
 * orient.cu - turns and mirrors any rectangle of an image on the device, or only copies it: the
 * eight EXIF orientations (orient.h).
 *
 * The source may start at any byte. A lane loads the two aligned 16-byte pieces that contain its
 * 16 bytes, and shifts them together. The second piece is the first one of the neighbouring lane
 * and comes from the cache. All source addresses of an image have the same remainder modulo 16
 * (`skew`), so all lanes shift by the same number of bytes.
 *
 * If the axes are swapped, a block transposes a tile in shared memory (gray 128 x 128, otherwise
 * 64 x 64 pixels): row i of the tile becomes column i of the output. A lane reads whole words of
 * neighbouring rows and transposes their bytes in registers with PRMT; it writes 16 bytes. Rows
 * are padded, or rotated by 16 bytes every few rows, so that neither the 16-byte accesses along
 * rows nor the word accesses down columns have bank conflicts. In one access of a warp (modulo 32):
 *
 *     gray   row 16 g + i, word w: bank 4 (w / 4 + g) + w % 4, with 8 values of g and 4 of w
 *     RGBA   row 4 g + i, word w: the same
 *     RGB    reads row 4 b + i, word 3 a + j: bank 8 b + 3 a + a constant;
 *            writes row 4 a + c, word 3 b + j: bank 4 a + 3 b + a constant;
 *            both with 8 values of a and 4 of b, which gives 32 different banks
 *
 * Otherwise rows are copied, and mirrored in registers. To be mirrored, RGB pixels are first
 * exchanged through shared memory, so that each lane has 16 whole pixels.
 *
 * Copies of several images (crops) share a launch.
 */
#include "gpu/ops/load.cuh"
#include "gpu/ops/orient.h"

#define THREADS 256
#define ROW_THREADS 256
#define WARP 32
#define WARPS (THREADS / WARP)
/* Rows that a thread of orient_rows_kernel loads before it stores them. */
#define ROWS 2
/* Resident blocks per multiprocessor of orient_swap_kernel: as many as the multiprocessor has
 * threads for. For unaligned sources the kernel is built for half of them: it has twice the loads
 * in flight and would run out of registers. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
#define BLOCKS_A_MULTIPROCESSOR 4
#elif defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ / 100 == 9 || \
                                 __CUDA_ARCH__ / 100 == 10)
#define BLOCKS_A_MULTIPROCESSOR 8
#else
#define BLOCKS_A_MULTIPROCESSOR 6
#endif
/* RGB pixels per warp of orient_mirror_rgb_kernel, 16 per lane. */
#define STRETCH (16 * WARP)

struct orient_args : pass_images {
    int from_width, from_height;
    int across; /* 16-byte pieces, stretches of STRETCH pixels, or tiles per row of the result */
    int items;  /* total number of pieces or stretches; not set for tiles */
    int skew;   /* remainder of the source addresses modulo 16 */
    int row_bytes;
    bool flip_x, flip_y;
};

/* Reverses the order of the pixels in 16 bytes: 16 gray or 4 RGBA pixels. */
template <int C> SIMT uint4 mirror_16(uint4 v)
{
    if constexpr (C == 4)
        return make_uint4(v.w, v.z, v.y, v.x);
    return make_uint4(__byte_perm(v.w, 0, 0x0123), __byte_perm(v.z, 0, 0x0123),
                      __byte_perm(v.y, 0, 0x0123), __byte_perm(v.x, 0, 0x0123));
}

/* Each thread copies the same 16-byte piece of ROWS adjacent rows. If not MIRROR, C may be 1 for
 * any number of channels. SKEWED: `skew` of some of the images may not be 0. */
template <int C, bool MIRROR, bool SKEWED, int N>
static __global__ void __launch_bounds__(ROW_THREADS)
    orient_rows_kernel(const __grid_constant__ several<orient_args, N> all)
{
    await_kernel_before();
    const orient_args &a = several_own(all);
    int row_bytes = a.row_bytes;
    int item = blockIdx.x * ROW_THREADS + threadIdx.x;
    if (item >= a.items)
        return;
    int group = item / a.across, to_offset = (item - group * a.across) * 16;
    int offset = MIRROR ? row_bytes - 16 - to_offset : to_offset;
    uint4 pieces[ROWS];
    unrolled_for (int k = 0; k < ROWS; k++) {
        int y = min(group * ROWS + k, a.height - 1);
        int source_y = a.flip_y ? a.height - 1 - y : y;
        pieces[k] = load_16<SKEWED>(a.from + (size_t)source_y * a.from_stride, offset, row_bytes,
                                    a.skew);
    }
    unrolled_for (int k = 0; k < ROWS; k++) {
        int y = group * ROWS + k;
        if (y < a.height)
            row_put(a.to + (size_t)y * a.to_stride, to_offset, row_bytes,
                    MIRROR ? mirror_16<C>(pieces[k]) : pieces[k]);
    }
}

/* Reverses the order of four RGB pixels, which are three words. */
SIMT void mirror_rgb(uint32_t *to, uint32_t a, uint32_t b, uint32_t c)
{
    to[0] = __byte_perm(c, b, 0x6321);
    to[1] = __byte_perm(__byte_perm(b, c, 0x0043), a, 0x3710);
    to[2] = __byte_perm(a, b, 0x2105);
}

template <bool SKEWED>
static __global__ void __launch_bounds__(THREADS) orient_mirror_rgb_kernel(orient_args a)
{
    await_kernel_before();
    __shared__ uint4 stages[WARPS][STRETCH * 3 / 16];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int item = blockIdx.x * WARPS + warp;
    if (item >= a.items)
        return; /* the whole warp returns */
    int y = item / a.across, x0 = (item - y * a.across) * STRETCH;
    int row_bytes = a.width * 3;
    int source_y = a.flip_y ? a.height - 1 - y : y;
    const uint8_t *source = a.from + (size_t)source_y * a.from_stride;
    uint4 *stage = stages[warp], pieces[3];
    unrolled_for (int j = 0; j < 3; j++)
        pieces[j] = load_16<SKEWED>(source, row_bytes - (x0 + STRETCH) * 3 + (lane + j * WARP) * 16,
                                    row_bytes, a.skew);
    unrolled_for (int j = 0; j < 3; j++)
        stage[lane + j * WARP] = pieces[j];
    __syncwarp();
    uint4 p = stage[lane * 3], q = stage[lane * 3 + 1], r = stage[lane * 3 + 2];
    uint32_t words[12];
    mirror_rgb(words, r.y, r.z, r.w);
    mirror_rgb(words + 3, q.z, q.w, r.x);
    mirror_rgb(words + 6, p.w, q.x, q.y);
    mirror_rgb(words + 9, p.x, p.y, p.z);
    __syncwarp();
    unrolled_for (int j = 0; j < 3; j++)
        stage[(WARP - 1 - lane) * 3 + j] =
            make_uint4(words[4 * j], words[4 * j + 1], words[4 * j + 2], words[4 * j + 3]);
    __syncwarp();
    uint8_t *row = a.to + (size_t)y * a.to_stride;
    unrolled_for (int j = 0; j < 3; j++)
        row_put(row, x0 * 3 + (lane + j * WARP) * 16, row_bytes, stage[lane + j * WARP]);
}

/* ---- axes swapped ---- */

/* A tile in shared memory. All rows of a group of `group` rows are rotated or padded equally, and
 * each group by 16 (RGB: 32) bytes more than the one before. */
template <int C> struct tile_of {
    static constexpr int side = C == 1 ? 128 : 64;
    static constexpr int row_bytes = side * C;
    static constexpr int pieces = row_bytes / 16; /* of 16 bytes, per row */
    static constexpr int thread_pieces = side * pieces / THREADS;
    static constexpr int group = C == 1 ? 16 : 4;
    static constexpr int bytes = side * row_bytes + (C == 3 ? side / group * 32 : 0);
};

template <int C> SIMT int tile_piece(int row, int piece)
{
    typedef tile_of<C> tile;
    if constexpr (C == 3)
        return row * tile::row_bytes + row / tile::group * 32 + piece * 16;
    return row * tile::row_bytes + (piece + row / tile::group) % tile::pieces * 16;
}

/* The row of the result that gets row `row` of a transposed tile, or NULL if there is none. */
template <int C> SIMT uint8_t *tile_row(const orient_args &a, int y0, int row)
{
    int y = y0 + (a.flip_x ? tile_of<C>::side - 1 - row : row);
    return y < a.height ? a.to + (size_t)y * a.to_stride : NULL;
}

/* Gray: a lane transposes 16 rows of 4 pixels to 4 rows of 16. */
SIMT void tile_write(const orient_args &a, const uint8_t *bytes, int x0, int y0)
{
    int g = threadIdx.x % 8, w = threadIdx.x / 8;
    uint32_t out[4][4]; /* [column of the tile][word] */
    unrolled_for (int k = 0; k < 4; k++) {
        uint32_t r[4];
        unrolled_for (int i = 0; i < 4; i++)
            r[i] = word_at(bytes + tile_piece<1>(16 * g + 4 * k + i, w / 4) + w % 4 * 4);
        uint32_t low0 = __byte_perm(r[0], r[1], 0x5140), low1 = __byte_perm(r[2], r[3], 0x5140);
        uint32_t high0 = __byte_perm(r[0], r[1], 0x7362), high1 = __byte_perm(r[2], r[3], 0x7362);
        out[0][k] = __byte_perm(low0, low1, 0x5410);
        out[1][k] = __byte_perm(low0, low1, 0x7632);
        out[2][k] = __byte_perm(high0, high1, 0x5410);
        out[3][k] = __byte_perm(high0, high1, 0x7632);
    }
    unrolled_for (int c = 0; c < 4; c++) {
        uint8_t *row = tile_row<1>(a, y0, 4 * w + c);
        if (row)
            row_put(row, x0 + 16 * g, a.width,
                    make_uint4(out[c][0], out[c][1], out[c][2], out[c][3]));
    }
}

/* RGBA: a lane reads one pixel from each of 4 rows and writes them as a row of 4; four times. */
SIMT void tile_write_rgba(const orient_args &a, const uint8_t *bytes, int x0, int y0)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    unrolled_for (int j = 0; j < 4; j++) {
        int m = warp + j * WARPS, g = lane % 8 + m % 2 * 8, w = lane / 8 + m / 2 * 4;
        uint32_t r[4];
        unrolled_for (int i = 0; i < 4; i++)
            r[i] = word_at(bytes + tile_piece<4>(4 * g + i, w / 4) + w % 4 * 4);
        uint8_t *row = tile_row<4>(a, y0, w);
        if (row)
            row_put(row, (x0 + 4 * g) * 4, a.width * 4, make_uint4(r[0], r[1], r[2], r[3]));
    }
}

/* RGB: a lane transposes 4 x 4 pixels in registers and stores them in the tile, which is then
 * written row by row. */
SIMT void tile_write_rgb(const orient_args &a, uint8_t *bytes, int x0, int y0)
{
    typedef tile_of<3> tile;
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int g = lane % 8 + warp % 2 * 8, b = lane / 8 + warp / 2 * 4;
    uint32_t p[4][4]; /* [column][row]: the pixel is in bytes 0..2, byte 3 is of another pixel */
    unrolled_for (int i = 0; i < 4; i++) {
        int at = tile_piece<3>(4 * b + i, 0) + 12 * g;
        uint32_t w0 = word_at(bytes + at), w1 = word_at(bytes + at + 4);
        uint32_t w2 = word_at(bytes + at + 8);
        p[0][i] = w0;
        p[1][i] = __byte_perm(w0, w1, 0x0543);
        p[2][i] = __byte_perm(w1, w2, 0x0432);
        p[3][i] = w2 >> 8;
    }
    __syncthreads();
    unrolled_for (int c = 0; c < 4; c++) {
        uint32_t *place = reinterpret_cast<uint32_t *>(bytes + (4 * g + c) * tile::row_bytes +
                                                       16 * g + 12 * b);
        place[0] = __byte_perm(p[c][0], p[c][1], 0x4210);
        place[1] = __byte_perm(p[c][1], p[c][2], 0x5421);
        place[2] = __byte_perm(p[c][2], p[c][3], 0x6542);
    }
    __syncthreads();
    unrolled_for (int j = 0; j < tile::thread_pieces; j++) {
        int i = threadIdx.x + j * THREADS, line = i / tile::pieces;
        int offset = (i - line * tile::pieces) * 16;
        uint8_t *row = tile_row<3>(a, y0, line);
        if (row)
            row_put(row, x0 * 3 + offset, a.width * 3,
                    piece_at(bytes + line * tile::row_bytes + line / 4 * 16 + offset));
    }
}

template <int C, bool SKEWED>
static __global__ void __launch_bounds__(THREADS, BLOCKS_A_MULTIPROCESSOR / (SKEWED ? 2 : 1))
    orient_swap_kernel(orient_args a)
{
    await_kernel_before();
    typedef tile_of<C> tile;
    __shared__ alignas(16) uint8_t bytes[tile::bytes];
    int tile_y = blockIdx.x / a.across, tile_x = blockIdx.x - tile_y * a.across;
    int x0 = tile_x * tile::side, y0 = tile_y * tile::side;
    /* If mirrored, the tile ends y0 columns before the right side of the source, and its last
     * column becomes row y0 of the result. */
    int offset = (a.flip_x ? a.from_width - y0 - tile::side : y0) * C;
    uint4 pieces[tile::thread_pieces];
    unrolled_for (int j = 0; j < tile::thread_pieces; j++) {
        int i = threadIdx.x + j * THREADS, row = i / tile::pieces;
        int x = min(x0 + row, a.width - 1), source_y = a.flip_y ? a.from_height - 1 - x : x;
        pieces[j] = load_16<SKEWED>(a.from + (size_t)source_y * a.from_stride,
                                    offset + (i - row * tile::pieces) * 16, a.from_width * C,
                                    a.skew);
    }
    unrolled_for (int j = 0; j < tile::thread_pieces; j++) {
        int i = threadIdx.x + j * THREADS, row = i / tile::pieces;
        piece_at(bytes + tile_piece<C>(row, i - row * tile::pieces)) = pieces[j];
    }
    __syncthreads();
    if constexpr (C == 1)
        tile_write(a, bytes, x0, y0);
    else if constexpr (C == 3)
        tile_write_rgb(a, bytes, x0, y0);
    else
        tile_write_rgba(a, bytes, x0, y0);
}

/* ---- launchers ---- */

static int pieces_of(int length, int piece)
{
    return (length + piece - 1) / piece;
}

static const struct orient *orient_of(const struct pass_call &call)
{
    return reinterpret_cast<const struct orient *>(call.pass->params);
}

/* Sets all members but `across` and `items`. */
static orient_args orient_args_of(const struct pass_call &call)
{
    const struct orient *orient = orient_of(call);
    orient_args args = pass_args<orient_args>(&call.from, &call.to);
    args.from_width = (int)call.from.width;
    args.from_height = (int)call.from.height;
    args.row_bytes = args.from_width * (int)call.from.channels;
    args.flip_x = orient->flip_x;
    args.flip_y = orient->flip_y;
    /* If mirrored, the 16-byte pieces are counted from the end of a row. */
    uintptr_t origin = (uintptr_t)call.from.pixels + (args.flip_x ? args.row_bytes : 0);
    args.skew = (int)(origin % 16);
    return args;
}

template <int C> static cudaError_t launch_swap(orient_args args, cudaStream_t stream)
{
    args.across = pieces_of(args.width, tile_of<C>::side);
    unsigned blocks = (unsigned)(args.across * pieces_of(args.height, tile_of<C>::side));
    auto kernel = args.skew ? orient_swap_kernel<C, true> : orient_swap_kernel<C, false>;
    return launch_kernel(kernel, blocks, THREADS, 0, stream, args);
}

template <int C, bool MIRROR>
static cudaError_t launch_rows(const struct pass_call *calls, uint32_t count, cudaStream_t stream)
{
    auto describe = [](const struct pass_call &call, orient_args *args) {
        *args = orient_args_of(call);
        args->across = pieces_of(args->row_bytes, 16);
        args->items = args->across * pieces_of(args->height, ROWS);
        return dim3((unsigned)pieces_of(args->items, ROW_THREADS));
    };
    return launch_several<orient_args, !MIRROR>(
        calls, count, describe, [&](const auto &all, dim3 grid) {
            constexpr int n = sizeof(all.of) / sizeof(all.of[0]);
            /* Several images may have a skew; one is skewed or not. */
            auto kernel = n > 1 || all.of[0].skew ? orient_rows_kernel<C, MIRROR, true, n>
                                                  : orient_rows_kernel<C, MIRROR, (n > 1), n>;
            return launch_kernel(kernel, grid, ROW_THREADS, 0, stream, all);
        });
}

static cudaError_t launch_mirror_rgb(orient_args args, cudaStream_t stream)
{
    args.across = pieces_of(args.width, STRETCH);
    args.items = args.across * args.height;
    unsigned blocks = (unsigned)pieces_of(args.items, WARPS);
    auto kernel = args.skew ? orient_mirror_rgb_kernel<true> : orient_mirror_rgb_kernel<false>;
    return launch_kernel(kernel, blocks, THREADS, 0, stream, args);
}

static cudaError_t launch_one(const struct pass_call &call, cudaStream_t stream)
{
    if (orient_of(call)->swap)
        return by_channels(call.from.channels, [&](auto c) {
            return launch_swap<c>(orient_args_of(call), stream);
        });
    return call.from.channels == 1   ? launch_rows<1, true>(&call, 1, stream)
           : call.from.channels == 3 ? launch_mirror_rgb(orient_args_of(call), stream)
                                     : launch_rows<4, true>(&call, 1, stream);
}

PASS_LAUNCHER_MANY(orient_cuda)
{
    if (!orient_of(calls[0])->swap && !orient_of(calls[0])->flip_x)
        return launch_rows<1, false>(calls, count, stream);
    cudaError_t result = cudaSuccess;
    for (uint32_t i = 0; i < count && result == cudaSuccess; i++)
        result = launch_one(calls[i], stream);
    return result;
}
