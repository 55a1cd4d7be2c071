/*
 * sobel.cu - gray and its gradient in one pass: 1, 3 or 4 bytes in, 1 byte out a pixel.
 *
 * A block of 4 warps walks down a strip of 512 columns, 8 rows a step. In a step each warp turns
 * two rows, which it loaded while the step before was computed, to gray in a ring of three steps
 * of rows in shared memory, with a column of halo on either side; then it computes two rows of
 * the result from four rows of gray. So every pixel is read once and made gray once, but for two
 * rows a block and two columns a strip, which the second-level cache holds. One barrier a step
 * is enough: a step reads gray of its own rows and of the two rows before them, and what is
 * written meanwhile belongs to the next step; three steps of rows fit the ring.
 *
 * The gradient is computed on pairs of pixels in half2 arithmetic, exactly: as long as integers
 * stay within +-2047, a half whose bits are the integer k (sign beside it) stands for k 2^-24,
 * subnormal or of the first normal exponent, so sums and doublings are exact, and a byte of gray
 * is such a half as it stands. Absolute values are free there, as modifiers of the operands.
 *
 * Instructions a pixel, for RGB and half (132 multiprocessors at 1.7 GHz issue 28.7e12 lanes a
 * second: 41 a pixel at 700 Gpixel/s; byte shuffles and dot products have half of that):
 *     gray     2 IDP.2A, 0.75 PRMT to pack
 *     unpack   1.25 PRMT (4 rows of gray for 2 of the result, 20 columns for 16)
 *     columns  1.9 HFMA2/HADD2: a + 2d + g and a - g
 *     shift    1.1 PRMT: the same, one column to the left
 *     rows     1.5 HADD2/HFMA2: Gx, Gy; length 0.5, clamp 0.5, halve 0.5, pack 0.25 PRMT
 * about 10; with loads, the halo, addresses, borders and the loop, sm_90 code has 680 for the 32
 * pixels of a lane in a step, 21 a pixel, of which about 18 are carried out away from borders.
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "gpu/ops/launch.cuh"
#include "gpu/ops/multiprocessors.cuh"
#include "gpu/ops/rows.cuh"
#include "gpu/ops/sobel.h"
#include "gpu/ops/tables.cuh"

#define WARPS 4
#define WARP_ROWS 2
#define STEP_ROWS (WARPS * WARP_ROWS)
#define RING_ROWS (3 * STEP_ROWS)
/* Columns before the first pixel in a row of the ring: its halo, and alignment for 16 bytes. */
#define MARGIN 16
#define RING_PITCH (MARGIN + WARP_PIXELS + MARGIN)
/* Blocks that fit a multiprocessor, by registers: four channels in flight take more of them. */
#define BLOCKS_A_MULTIPROCESSOR(channels) ((channels) == 4 ? 4 : (channels) == 3 ? 6 : 8)
/* Rows a block: so few cost too much that is made twice, so many leave blocks too uneven. */
#define ROWS_MIN (STEP_ROWS - 2)
#define ROWS_MAX (16 * STEP_ROWS - 2)

/* ---- kernels ---- */

struct sobel_args {
    const uint8_t *from;
    uint8_t *to;
    size_t from_stride, to_stride;
    int width, height;
    int strips;     /* blocks side by side */
    int block_rows; /* of the result */
    enum sobel_border border;
    gray_words gray;
};

/* What a warp has in flight of a row: its stretch and, in lanes 0 and 1, the pixel before the
 * strip and the pixel after it (or after the image, by the rule of the border). */
template <int C> struct sobel_row {
    row_part<C> part;
    uint32_t halo;
};

template <int C>
static __device__ __forceinline__ void sobel_load(sobel_row<C> *held, const sobel_args &a, int y,
                                                  int x0, int lane)
{
    const uint8_t *row = a.from + (size_t)sobel_inside(y, a.height, a.border) * a.from_stride;
    row_load<C>(&held->part, row, x0, a.width, lane);
    held->halo = 0;
    if (lane < 2) {
        int x = lane == 0 ? x0 - 1 : min(x0 + WARP_PIXELS, a.width);
        const uint8_t *pixel = row + sobel_inside(x, a.width, a.border) * C;
#pragma unroll
        for (int c = 0; c < C; c++)
            held->halo |= (uint32_t)__ldg(pixel + c) << (8 * c);
    }
}

/* Makes gray of a loaded row in its place in the ring. The halo comes after the stretch: where
 * the image ends within the strip, it replaces what lies behind the last pixel. */
template <int C, bool TABLE>
static __device__ __forceinline__ void sobel_keep(sobel_row<C> *held, uint8_t *ring_row,
                                                  uint8_t *stage, const uint8_t *table,
                                                  const sobel_args &a, int x0, int lane)
{
    uint8_t *pixels = ring_row + MARGIN;
    uint32_t halo = held->halo;
    if constexpr (C == 4) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t four = gray_four_rgba(held->part.words[j], a.gray);
            *reinterpret_cast<uint32_t *>(pixels + (lane + j * WARP) * 4) =
                TABLE ? look_up<false>(four, table) : four;
        }
        halo = gray_one_rgba(halo, a.gray);
    } else {
        uint4 gray = held->part.words[0];
        if constexpr (C == 3) {
            row_turn_rgb(&held->part, stage, lane);
            gray = gray_lane_rgb(held->part, a.gray);
            halo = grayscale_rgb(halo & 255u, halo >> 8 & 255u, halo >> 16, a.gray.r, a.gray.g,
                                 a.gray.b);
        }
        *reinterpret_cast<uint4 *>(pixels + lane * LANE_PIXELS) =
            TABLE ? look_up_four<false>(gray, table) : gray;
    }
    if (TABLE)
        halo = table[halo];
    __syncwarp();
    if (lane == 0)
        pixels[-1] = (uint8_t)halo;
    if (lane == 1)
        pixels[min(WARP_PIXELS, a.width - x0)] = (uint8_t)halo;
}

static __device__ __forceinline__ __half2 as_half2(uint32_t word)
{
    return *reinterpret_cast<__half2 *>(&word);
}

static __device__ __forceinline__ uint32_t as_word(__half2 pair)
{
    return *reinterpret_cast<uint32_t *>(&pair);
}

/* Pixels of one row around and in a lane's 16: pair[0] ends in the one before them, pair[1..8]
 * are they, pair[9] begins with the one after. */
struct sobel_pairs {
    __half2 pair[10];
};

static __device__ __forceinline__ void sobel_unpack(sobel_pairs *row, const uint8_t *ring_row,
                                                    int lane)
{
    const uint8_t *pixels = ring_row + MARGIN + lane * LANE_PIXELS;
    uint4 mid = *reinterpret_cast<const uint4 *>(pixels);
    uint32_t words[4] = {mid.x, mid.y, mid.z, mid.w};
    uint32_t before = *reinterpret_cast<const uint32_t *>(pixels - 4);
    uint32_t after = *reinterpret_cast<const uint32_t *>(pixels + LANE_PIXELS);
    row->pair[0] = as_half2(__byte_perm(before, 0, 0x4342));
#pragma unroll
    for (int q = 0; q < 4; q++) {
        row->pair[1 + 2 * q] = as_half2(__byte_perm(words[q], 0, 0x4140));
        row->pair[2 + 2 * q] = as_half2(__byte_perm(words[q], 0, 0x4342));
    }
    row->pair[9] = as_half2(__byte_perm(after, 0, 0x4140));
}

/* (high half of left, low half of right): the pair that begins one pixel before `right`. */
static __device__ __forceinline__ __half2 pair_between(__half2 left, __half2 right)
{
    return as_half2(__byte_perm(as_word(left), as_word(right), 0x5432));
}

/* Lengths of two gradients as two integers 0..255, one a half of the word. */
template <int M>
static __device__ __forceinline__ uint32_t sobel_pair_length(__half2 gx, __half2 gy)
{
    if constexpr (M == SOBEL_L2) {
        uint32_t x = as_word(gx) & 0x7FFF7FFFu, y = as_word(gy) & 0x7FFF7FFFu;
        int low = (int)((x & 0xFFFFu) * (x & 0xFFFFu) + (y & 0xFFFFu) * (y & 0xFFFFu));
        int high = (int)((x >> 16) * (x >> 16) + (y >> 16) * (y >> 16));
        return (uint32_t)sobel_root(low) | (uint32_t)sobel_root(high) << 16;
    } else {
        uint32_t most = M == SOBEL_HALF ? 0x01FF01FFu : 0x00FF00FFu;
        __half2 sum = __hadd2(__habs2(gx), __habs2(gy));
        uint32_t cut = as_word(__hmin2(sum, as_half2(most)));
        return M == SOBEL_HALF ? cut >> 1 : cut; /* what falls into bit 15 is dropped by PRMT */
    }
}

/* 16 pixels of the result from rows above (a), at (m) and below (b). */
template <int M>
static __device__ __forceinline__ uint4 sobel_lane(const sobel_pairs &a, const sobel_pairs &m,
                                                   const sobel_pairs &b)
{
    const __half2 two = as_half2(0x40004000u);
    __half2 smooth[10], step[10]; /* down the columns: a + 2 m + b, a - b */
#pragma unroll
    for (int k = 0; k < 10; k++) {
        smooth[k] = __hadd2(__hfma2(two, m.pair[k], a.pair[k]), b.pair[k]);
        step[k] = __hsub2(a.pair[k], b.pair[k]);
    }
    uint32_t length[8];
    __half2 smooth_left = pair_between(smooth[0], smooth[1]);
    __half2 step_left = pair_between(step[0], step[1]);
#pragma unroll
    for (int k = 0; k < 8; k++) {
        __half2 smooth_right = pair_between(smooth[k + 1], smooth[k + 2]);
        __half2 step_right = pair_between(step[k + 1], step[k + 2]);
        __half2 gx = __hsub2(smooth_left, smooth_right);
        __half2 gy = __hadd2(__hfma2(two, step[k + 1], step_left), step_right);
        length[k] = sobel_pair_length<M>(gx, gy);
        smooth_left = smooth_right;
        step_left = step_right;
    }
    return make_uint4(__byte_perm(length[0], length[1], 0x6420),
                      __byte_perm(length[2], length[3], 0x6420),
                      __byte_perm(length[4], length[5], 0x6420),
                      __byte_perm(length[6], length[7], 0x6420));
}

static __device__ __forceinline__ void sobel_store(uint4 pixels, const sobel_args &a, int x, int y)
{
    if (a.border == SOBEL_ZERO) {
        if (y == 0 || y == a.height - 1)
            pixels = make_uint4(0, 0, 0, 0);
        if (x == 0)
            pixels.x &= 0xFFFFFF00u;
        int last = a.width - 1 - x;
        if (last < LANE_PIXELS) {
            uint32_t keep = ~(0xFFu << (last % 4 * 8));
            pixels.x &= last / 4 == 0 ? keep : ~0u;
            pixels.y &= last / 4 == 1 ? keep : ~0u;
            pixels.z &= last / 4 == 2 ? keep : ~0u;
            pixels.w &= last / 4 == 3 ? keep : ~0u;
        }
    }
    *reinterpret_cast<uint4 *>(a.to + (size_t)y * a.to_stride + x) = pixels;
}

/* Row i of a block's gray is row y0 - 1 + i of the image, i = 0..rows + 1; row j of its result
 * needs rows j, j + 1, j + 2 of gray. Step t makes rows 8 t..8 t + 7 of gray, and from then on
 * rows 8 t - 2..8 t + 5 of the result can be computed. */
template <int C, int M, bool TABLE>
static __global__ void __launch_bounds__(WARPS *WARP, BLOCKS_A_MULTIPROCESSOR(C))
    sobel_kernel(sobel_args a, const __grid_constant__ table_argument<TABLE> given)
{
    await_kernel_before();
    __shared__ alignas(16) uint8_t table[TABLE_BYTES(TABLE)];
    __shared__ alignas(16) uint8_t ring[RING_ROWS][RING_PITCH];
    __shared__ alignas(16) uint8_t stage[C == 3 ? WARPS : 1][C == 3 ? WARP_PIXELS * 3 : 16];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int block_y = blockIdx.x / a.strips, strip = blockIdx.x - block_y * a.strips;
    int x0 = strip * WARP_PIXELS, y0 = block_y * a.block_rows;
    int rows = min(a.block_rows, a.height - y0);
    int steps = (rows + 2 + STEP_ROWS - 1) / STEP_ROWS;
    int x = x0 + lane * LANE_PIXELS;

    sobel_row<C> held[WARP_ROWS];
#pragma unroll
    for (int k = 0; k < WARP_ROWS; k++) {
        int i = warp * WARP_ROWS + k;
        if (i < rows + 2)
            sobel_load<C>(&held[k], a, y0 - 1 + i, x0, lane);
    }
    if constexpr (TABLE) {
        tables_copy<1, WARPS>(table, given.pieces, warp, lane);
        __syncthreads();
    }
    int ring_base = 0; /* 8 t mod 24 */
    for (int t = 0; t < steps; t++) {
#pragma unroll
        for (int k = 0; k < WARP_ROWS; k++) {
            int i = t * STEP_ROWS + warp * WARP_ROWS + k;
            if (i < rows + 2)
                sobel_keep<C, TABLE>(&held[k], ring[ring_base + warp * WARP_ROWS + k],
                                     stage[C == 3 ? warp : 0], table, a, x0, lane);
        }
#pragma unroll
        for (int k = 0; k < WARP_ROWS; k++) {
            int i = (t + 1) * STEP_ROWS + warp * WARP_ROWS + k;
            if (i < rows + 2)
                sobel_load<C>(&held[k], a, y0 - 1 + i, x0, lane);
        }
        __syncthreads();

        int j = t * STEP_ROWS - 2 + warp * WARP_ROWS;
        if (j >= 0 && j < rows && x < a.width) {
            /* The two rows before this step's lie at the other end of the ring. */
            int above = ring_base - 2 + warp * WARP_ROWS;
            int first = above < 0 ? above + RING_ROWS : above;
            int third = ring_base + warp * WARP_ROWS;
            sobel_pairs p0, p1, p2, p3;
            sobel_unpack(&p0, ring[first], lane);
            sobel_unpack(&p1, ring[first + 1], lane);
            sobel_unpack(&p2, ring[third], lane);
            sobel_store(sobel_lane<M>(p0, p1, p2), a, x, y0 + j);
            if (j + 1 < rows) {
                sobel_unpack(&p3, ring[third + 1], lane);
                sobel_store(sobel_lane<M>(p1, p2, p3), a, x, y0 + j + 1);
            }
        }
        ring_base = ring_base + STEP_ROWS == RING_ROWS ? 0 : ring_base + STEP_ROWS;
    }
}

/* ---- launchers ---- */

/* Rows a block: as many blocks as run at once, so that none waits for a second round. */
static int block_rows(int width, int height, int channels)
{
    int strips = (width + WARP_PIXELS - 1) / WARP_PIXELS;
    int wanted = multiprocessors() * BLOCKS_A_MULTIPROCESSOR(channels) / strips;
    int rows = wanted < 1 ? height : (height + wanted - 1) / wanted;
    return rows < ROWS_MIN ? ROWS_MIN : rows > ROWS_MAX ? ROWS_MAX : rows;
}

template <int C, bool TABLE>
static cudaError_t launch_form(const sobel_args &args, unsigned blocks, const struct sobel *sobel,
                               cudaStream_t stream)
{
    const table_argument<TABLE> table = table_argument_of<TABLE>(&sobel->prologue);
    if (sobel->magnitude == SOBEL_HALF)
        return launch_kernel(sobel_kernel<C, SOBEL_HALF, TABLE>, blocks, WARPS * WARP, 0, stream,
                             args, table);
    if (sobel->magnitude == SOBEL_L1)
        return launch_kernel(sobel_kernel<C, SOBEL_L1, TABLE>, blocks, WARPS * WARP, 0, stream,
                             args, table);
    return launch_kernel(sobel_kernel<C, SOBEL_L2, TABLE>, blocks, WARPS * WARP, 0, stream, args,
                         table);
}

template <int C>
static cudaError_t launch(const sobel_args &args, unsigned blocks, const struct sobel *sobel,
                          cudaStream_t stream)
{
    return sobel->prologue.looks_up ? launch_form<C, true>(args, blocks, sobel, stream)
                                    : launch_form<C, false>(args, blocks, sobel, stream);
}

extern "C" int sobel_cuda(const struct pass *pass, const struct image *from,
                          const struct image *to, uint8_t *work, struct CUstream_st *stream)
{
    const struct sobel *sobel = reinterpret_cast<const struct sobel *>(pass->params);
    sobel_args args;
    (void)work;
    args.from = from->pixels;
    args.to = to->pixels;
    args.from_stride = from->stride;
    args.to_stride = to->stride;
    args.width = (int)from->width;
    args.height = (int)from->height;
    args.strips = (args.width + WARP_PIXELS - 1) / WARP_PIXELS;
    args.block_rows = block_rows(args.width, args.height, (int)from->channels);
    args.border = sobel->border;
    args.gray = gray_words_of(&sobel->prologue.gray);
    unsigned down = (unsigned)((args.height + args.block_rows - 1) / args.block_rows);
    unsigned blocks = (unsigned)args.strips * down;
    if (from->channels == 1)
        return launch<1>(args, blocks, sobel, stream);
    if (from->channels == 3)
        return launch<3>(args, blocks, sobel, stream);
    return launch<4>(args, blocks, sobel, stream);
}
