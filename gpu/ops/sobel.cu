/*
 * sobel.cu - the Sobel gradient (sobel.h) on the device, together with the conversion to gray: a
 * pixel takes 1, 3 or 4 bytes of reading and 1 byte of writing.
 *
 * A block of 4 warps walks down a strip of 512 columns, 8 rows per step. In each step, a warp
 * converts two rows to gray that it loaded during the previous step. The gray is stored in a ring
 * buffer in shared memory, which has the rows of three steps and one more column on either side.
 * The warp then computes two rows of the result from four rows of gray. Every pixel is thus read
 * and converted once, except two rows per block and two columns per strip, which are still in the
 * L2 cache. One barrier per step is enough: a step reads gray of its own rows and of the two rows
 * before them. What is written after the barrier belongs to the next step, for which the ring
 * buffer has other rows.
 *
 * The gradient is computed exactly, for two pixels at once, in half2 arithmetic. If an integer k
 * from 0 to 2047 is taken as the bits of a half, the half has the value k 2^-24: it is subnormal or
 * has the smallest normal exponent. Sums, differences and doublings of such numbers are exact, and
 * a gray byte needs no conversion. Absolute values are free, as modifiers of the operands.
 *
 * Instructions per pixel for RGB and the magnitude `half`: about 10 for gray and gradient. With
 * loads, halo, addresses, borders and the loop, the code for sm_90 has 21, of which about 18 are
 * executed away from borders. At 700 Gpixel/s, 132 multiprocessors at 1.7 GHz can issue 41
 * instructions per pixel.
 */
#include "gpu/ops/rows.cuh"
#include "gpu/ops/sobel.h"

#define WARPS 4
#define WARP_ROWS 2
#define STEP_ROWS (WARPS * WARP_ROWS)
#define RING_ROWS (3 * STEP_ROWS)
/* Bytes on either side of a row in the ring buffer. Only the one next to the row is used; the
 * others keep the rows aligned to 16 bytes. */
#define MARGIN 16
#define RING_PITCH (MARGIN + WARP_PIXELS + MARGIN)
/* Resident blocks per multiprocessor. Registers are the limit: with more channels, they hold more
 * loaded bytes. */
#define BLOCKS_A_MULTIPROCESSOR(channels) ((channels) == 4 ? 4 : (channels) == 3 ? 6 : 8)
/* Rows of the result per block. With fewer, too many rows are converted by two blocks; with more,
 * the blocks end at too different times. */
#define ROWS_MIN (STEP_ROWS - 2)
#define ROWS_MAX (16 * STEP_ROWS - 2)

struct sobel_args : pass_images {
    int strips;     /* strips side by side in the image */
    int block_rows; /* rows of the result per block */
    enum border border;
    gray_words gray;
};

/* What a lane has loaded of a row: its pixels of the strip and, in lanes 0 and 1, the pixel before
 * and the pixel after the strip. Outside of the image, `border` says which pixel that is. */
template <int C> struct sobel_row {
    row_part<C> part;
    uint32_t halo;
};

template <int C>
SIMT void sobel_load(sobel_row<C> *held, const sobel_args &a, int y, int x0, int lane)
{
    const uint8_t *row = a.from + (size_t)sobel_inside(y, a.height, a.border) * a.from_stride;
    row_load<C>(&held->part, row, x0, a.width, lane);
    held->halo = 0;
    if (lane < 2) {
        int x = lane == 0 ? x0 - 1 : min(x0 + WARP_PIXELS, a.width);
        const uint8_t *pixel = row + sobel_inside(x, a.width, a.border) * C;
        unrolled_for (int c = 0; c < C; c++)
            held->halo |= (uint32_t)__ldg(pixel + c) << (8 * c);
    }
}

/* Converts a loaded row to gray and stores it in the ring buffer. The pixels before and after the
 * strip are stored last. If the image ends within the strip, the pixel after it replaces the byte
 * after the last pixel. */
template <int C, bool TABLE>
SIMT void sobel_keep(sobel_row<C> *held, uint8_t *ring_row, uint8_t *stage, const uint8_t *table,
                     const sobel_args &a, int x0, int lane)
{
    uint8_t *pixels = ring_row + MARGIN;
    uint32_t halo = held->halo;
    if constexpr (C == 4) {
        unrolled_for (int j = 0; j < 4; j++) {
            uint32_t four = gray_four_rgba(held->part.words[j], a.gray);
            word_at(pixels + (lane + j * WARP) * 4) = TABLE ? look_up<false>(four, table) : four;
        }
        halo = gray_sum_rgba(halo, a.gray) >> 16;
    } else {
        uint4 gray = held->part.words[0];
        if constexpr (C == 3) {
            row_turn_rgb(&held->part, stage, lane);
            gray = gray_lane_rgb(held->part, a.gray);
            halo = grayscale_rgb(halo & 255u, halo >> 8 & 255u, halo >> 16, a.gray.r, a.gray.g,
                                 a.gray.b);
        }
        piece_at(pixels + lane * LANE_PIXELS) = TABLE ? look_up_four<false>(gray, table) : gray;
    }
    if (TABLE)
        halo = table[halo];
    __syncwarp();
    if (lane == 0)
        pixels[-1] = (uint8_t)halo;
    if (lane == 1)
        pixels[min(WARP_PIXELS, a.width - x0)] = (uint8_t)halo;
}

/* A lane's 16 pixels of one row and their neighbours. The 16 pixels are in pair[1..8]. pair[0] ends
 * with the pixel before them, and pair[9] starts with the pixel after them. */
struct sobel_pairs {
    __half2 pair[10];
};

SIMT void sobel_unpack(sobel_pairs *row, const uint8_t *ring_row, int lane)
{
    const uint8_t *pixels = ring_row + MARGIN + lane * LANE_PIXELS;
    uint4 mid = piece_at(pixels);
    uint32_t words[4] = {mid.x, mid.y, mid.z, mid.w};
    row->pair[0] = pair_of(__byte_perm(word_at(pixels - 4), 0, 0x4342));
    unrolled_for (int q = 0; q < 4; q++) {
        row->pair[1 + 2 * q] = pair_of(__byte_perm(words[q], 0, 0x4140));
        row->pair[2 + 2 * q] = pair_of(__byte_perm(words[q], 0, 0x4342));
    }
    row->pair[9] = pair_of(__byte_perm(word_at(pixels + LANE_PIXELS), 0, 0x4140));
}

/* Magnitudes of two gradients, 0..255: in the lowest byte of each half of the word. */
template <int M> SIMT uint32_t sobel_pair_length(__half2 gx, __half2 gy)
{
    if constexpr (M == SOBEL_L2) {
        uint32_t x = word_of_pair(gx) & 0x7FFF7FFFu, y = word_of_pair(gy) & 0x7FFF7FFFu;
        int low = (int)((x & 0xFFFFu) * (x & 0xFFFFu) + (y & 0xFFFFu) * (y & 0xFFFFu));
        int high = (int)((x >> 16) * (x >> 16) + (y >> 16) * (y >> 16));
        return (uint32_t)sobel_root(low) | (uint32_t)sobel_root(high) << 16;
    } else {
        uint32_t most = M == SOBEL_HALF ? 0x01FF01FFu : 0x00FF00FFu;
        __half2 sum = __hadd2(__habs2(gx), __habs2(gy));
        uint32_t cut = word_of_pair(__hmin2(sum, pair_of(most)));
        return M == SOBEL_HALF ? cut >> 1 : cut; /* the caller ignores bit 15, shifted from above */
    }
}

/* Computes 16 pixels of the result from their row of gray (m) and the rows above (a) and below it
 * (b). */
template <int M>
SIMT uint4 sobel_lane(const sobel_pairs &a, const sobel_pairs &m, const sobel_pairs &b)
{
    const __half2 two = pair_of(0x40004000u);
    __half2 smooth[10], step[10]; /* per column: a + 2 m + b, a - b */
    unrolled_for (int k = 0; k < 10; k++) {
        smooth[k] = __hadd2(__hfma2(two, m.pair[k], a.pair[k]), b.pair[k]);
        step[k] = __hsub2(a.pair[k], b.pair[k]);
    }
    uint32_t length[8];
    __half2 smooth_left = pair_between(smooth[0], smooth[1]);
    __half2 step_left = pair_between(step[0], step[1]);
    unrolled_for (int k = 0; k < 8; k++) {
        __half2 smooth_right = pair_between(smooth[k + 1], smooth[k + 2]);
        __half2 step_right = pair_between(step[k + 1], step[k + 2]);
        __half2 gx = __hsub2(smooth_left, smooth_right);
        __half2 gy = __hadd2(__hfma2(two, step[k + 1], step_left), step_right);
        length[k] = sobel_pair_length<M>(gx, gy);
        smooth_left = smooth_right;
        step_left = step_right;
    }
    return make_uint4(
        __byte_perm(length[0], length[1], 0x6420), __byte_perm(length[2], length[3], 0x6420),
        __byte_perm(length[4], length[5], 0x6420), __byte_perm(length[6], length[7], 0x6420));
}

SIMT void sobel_store(uint4 pixels, const sobel_args &a, int x, int y)
{
    if (a.border == BORDER_ZERO) {
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
    row_put(a.to + (size_t)y * a.to_stride, x, a.width, pixels);
}

/* A block that computes `rows` rows from row y0 on has rows 0..rows + 1 of gray: row i is row y0 -
 * 1 + i of the image. Row j of the block's result needs rows j, j + 1 and j + 2 of gray. Step t
 * computes rows 8 t..8 t + 7 of gray, and then rows 8 t - 2..8 t + 5 of the result. */
template <int C, int M, bool TABLE, int N>
static __global__ void __launch_bounds__(WARPS *WARP, BLOCKS_A_MULTIPROCESSOR(C))
    sobel_kernel(const __grid_constant__ several<sobel_args, N> all,
                 const __grid_constant__ table_argument<TABLE> given)
{
    await_kernel_before();
    if (several_skips(all))
        return;
    const sobel_args &a = several_own(all);
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
    unrolled_for (int k = 0; k < WARP_ROWS; k++) {
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
        unrolled_for (int k = 0; k < WARP_ROWS; k++) {
            int i = t * STEP_ROWS + warp * WARP_ROWS + k;
            if (i < rows + 2)
                sobel_keep<C, TABLE>(&held[k], ring[ring_base + warp * WARP_ROWS + k],
                                     stage[C == 3 ? warp : 0], table, a, x0, lane);
        }
        unrolled_for (int k = 0; k < WARP_ROWS; k++) {
            int i = (t + 1) * STEP_ROWS + warp * WARP_ROWS + k;
            if (i < rows + 2)
                sobel_load<C>(&held[k], a, y0 - 1 + i, x0, lane);
        }
        __syncthreads();
        int j = t * STEP_ROWS - 2 + warp * WARP_ROWS;
        if (j >= 0 && j < rows && x < a.width) {
            /* The last two rows of the previous step may be at the other end of the ring buffer. */
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

/* Rows of the result per block. Chosen so that all blocks of all images of the launch run at
 * once. */
static int block_rows(int width, int height, int channels, int images)
{
    int strips = (width + WARP_PIXELS - 1) / WARP_PIXELS;
    int wanted = multiprocessors() * BLOCKS_A_MULTIPROCESSOR(channels) / (strips * images);
    int rows = wanted < 1 ? height : (height + wanted - 1) / wanted;
    return rows < ROWS_MIN ? ROWS_MIN : rows > ROWS_MAX ? ROWS_MAX : rows;
}

template <int C, bool TABLE, int N>
static cudaError_t launch_form(const several<sobel_args, N> &all, dim3 grid,
                               const struct sobel *sobel, cudaStream_t stream)
{
    const table_argument<TABLE> table = table_argument_of<TABLE>(&sobel->prologue);
    auto kernel = sobel->magnitude == SOBEL_HALF ? sobel_kernel<C, SOBEL_HALF, TABLE, N>
                  : sobel->magnitude == SOBEL_L1 ? sobel_kernel<C, SOBEL_L1, TABLE, N>
                                                 : sobel_kernel<C, SOBEL_L2, TABLE, N>;
    return launch_kernel(kernel, grid, WARPS * WARP, 0, stream, all, table);
}

static dim3 describe(const struct pass_call &call, const struct sobel *sobel, int images,
                     sobel_args *args)
{
    *args = pass_args<sobel_args>(&call.from, &call.to);
    args->strips = (args->width + WARP_PIXELS - 1) / WARP_PIXELS;
    args->block_rows = block_rows(args->width, args->height, (int)call.from.channels, images);
    args->border = sobel->border;
    args->gray = gray_words_of(&sobel->prologue.gray);
    unsigned down = (unsigned)((args->height + args->block_rows - 1) / args->block_rows);
    return dim3((unsigned)args->strips * down);
}

PASS_LAUNCHER_MANY(sobel_cuda)
{
    const struct sobel *sobel = reinterpret_cast<const struct sobel *>(calls[0].pass->params);
    return launch_several<sobel_args>(
        calls, count,
        [&](const struct pass_call &call, sobel_args *args) {
            return describe(call, sobel, (int)count, args);
        },
        [&](const auto &all, dim3 grid) {
            return by_channels(calls[0].from.channels, [&](auto c) {
                return sobel->prologue.looks_up ? launch_form<c, true>(all, grid, sobel, stream)
                                                : launch_form<c, false>(all, grid, sobel, stream);
            });
        });
}
