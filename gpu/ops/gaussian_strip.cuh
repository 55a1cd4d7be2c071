/*
 * gaussian_strip.cuh - Gaussian blur of RGB with up to 5 x 5 weights, in which each warp walks down
 * a strip of the image.
 *
 * A strip is 256 columns wide. A warp processes rows in pairs. While it works on one pair, the next
 * two pairs are loaded into the warp's own ring buffer in shared memory. No warp waits for another
 * warp, and the sums of the rows above stay in registers. Each lane has eight pixels, and two more
 * on either side, sorted into words of one channel. At the sides of the image, the columns outside
 * are made from the loaded rows.
 *
 * The arithmetic is that of gaussian.cu: horizontal sums with four weights per __dp4a, the sums of
 * two rows in one word, and vertical sums with two weights per __dp2a. But each row is summed
 * horizontally only once, whereas a tile sums 12 rows for 8 rows of the result. Instructions per
 * sample: 2 IDP.4A, 3 IDP.2A, 2.1 PRMT, and 2 more to load and store.
 */
#pragma once

#include <cuda_pipeline.h>

#include "gpu/ops/gaussian.h"
#include "gpu/ops/rows.cuh"

/* ---- the walk down a strip ---- */

#define STRIP_LANE 8
#define STRIP_WIDTH (WARP * STRIP_LANE)
#define STRIP_ROW_BYTES (STRIP_WIDTH * 3)
#define STRIP_WARPS 4
/* STRIP_MARGIN: bytes on either side of a row in the ring buffer. STRIP_SIDE: columns that are made
 * on either side of the image. STRIP_AHEAD: pairs of rows that are loaded ahead. */
#define STRIP_MARGIN 16
#define STRIP_SIDE 2
#define STRIP_PITCH (STRIP_MARGIN + STRIP_ROW_BYTES + STRIP_MARGIN)
#define STRIP_AHEAD 2
/* Rows of the result per warp. With fewer, too many rows are loaded by two warps; with more, the
 * warps end at too different times. */
#define STRIP_ROWS_MIN 8
#define STRIP_ROWS_MAX 128

struct strip_args : pass_images {
    int strips; /* per row of the image */
    int rows;   /* rows of the result per warp, even */
    enum border border;
};

/* Divides the image among as many warps as the device runs at once. blocks: resident blocks, of
 * STRIP_WARPS warps, per multiprocessor. */
static inline strip_args strip_args_of(const struct image *from, const struct image *to,
                                       enum border border, int blocks)
{
    strip_args args = pass_args<strip_args>(from, to);
    args.strips = (args.width + STRIP_WIDTH - 1) / STRIP_WIDTH;
    args.border = border;
    int down = multiprocessors() * blocks * STRIP_WARPS / args.strips;
    int rows = down < 1 ? args.height : (args.height + down - 1) / down;
    rows = rows < STRIP_ROWS_MIN ? STRIP_ROWS_MIN : rows > STRIP_ROWS_MAX ? STRIP_ROWS_MAX : rows;
    args.rows = (rows + 1) / 2 * 2;
    return args;
}

static inline unsigned strip_blocks(const strip_args &args)
{
    int walks = args.strips * ((args.height + args.rows - 1) / args.rows);
    return (unsigned)(walks + STRIP_WARPS - 1) / STRIP_WARPS;
}

/* The shared memory of a warp: the loaded pairs of rows, and two rows of the result. */
struct strip_memory {
    alignas(16) uint8_t ring[STRIP_AHEAD + 1][2][STRIP_PITCH];
    alignas(16) uint8_t stage[2][STRIP_ROW_BYTES];
};

/* The part of the result that a warp computes: `rows` rows from (x0, y0) on. */
struct strip_walk {
    int x0, y0, rows, lane;
};

/* `rows` is 0 or less if the warp has nothing to do. */
SIMT strip_walk strip_walk_of(const strip_args &a)
{
    int index = (int)blockIdx.x * STRIP_WARPS + (int)threadIdx.x / WARP;
    int down = index / a.strips, y0 = down * a.rows;
    return {(index - down * a.strips) * STRIP_WIDTH, y0, min(a.rows, a.height - y0),
            (int)threadIdx.x % WARP};
}

/* Starts loading pair m of rows, if it is needed. Pair 0 starts at row y0 - halo. */
SIMT void strip_send(strip_memory &memory, const strip_args &a, const strip_walk &walk, int halo,
                     int m)
{
    constexpr int pieces = STRIP_PITCH / 16;
    int left = walk.x0 * 3 - STRIP_MARGIN;
    if (2 * m < walk.rows + 2 * halo) {
        unrolled_for (int k = 0; k < 2; k++) {
            int y = border_inside(walk.y0 - halo + 2 * m + k, a.height, a.border);
            const uint8_t *row = a.from + (size_t)y * a.from_stride;
            uint8_t *to = memory.ring[m % (STRIP_AHEAD + 1)][k];
            unrolled_for (int j = 0; j < (pieces + WARP - 1) / WARP; j++) {
                int piece = walk.lane + j * WARP, offset = left + piece * 16;
                if (piece < pieces && row_holds<uint4>(offset, a.width * 3))
                    __pipeline_memcpy_async(to + piece * 16, row + offset, 16);
            }
        }
    }
    __pipeline_commit();
}

/* Makes the columns outside of the image in a pair of rows, from columns of the pair. One byte per
 * lane. */
SIMT void strip_make_sides(uint8_t (*rows)[STRIP_PITCH], const strip_args &a,
                           const strip_walk &walk)
{
    static_assert(2 * 2 * STRIP_SIDE * 3 <= WARP, "one byte per lane");
    int k = walk.lane & 1, c = (walk.lane >> 1) % 3, n = (walk.lane >> 1) / 3;
    int x = n < STRIP_SIDE ? -1 - n : a.width + n - STRIP_SIDE;
    if (n < 2 * STRIP_SIDE && x >= walk.x0 - STRIP_SIDE && x < walk.x0 + STRIP_WIDTH + STRIP_SIDE) {
        uint8_t *pixels = rows[k] + STRIP_MARGIN - walk.x0 * 3;
        pixels[x * 3 + c] = pixels[border_inside(x, a.width, a.border) * 3 + c];
    }
    __syncwarp();
}

/* Waits until pair m is loaded, and starts loading the pair STRIP_AHEAD later. Returns the two
 * rows, which stay valid until the next call. */
SIMT const uint8_t (*strip_next(strip_memory &memory, const strip_args &a, const strip_walk &walk,
                                  int halo, int m))[STRIP_PITCH]
{
    uint8_t(*rows)[STRIP_PITCH] = memory.ring[m % (STRIP_AHEAD + 1)];
    __pipeline_wait_prior(STRIP_AHEAD - 1);
    __syncwarp();
    if (walk.x0 == 0 || walk.x0 + STRIP_WIDTH + STRIP_SIDE > a.width)
        strip_make_sides(rows, a, walk);
    strip_send(memory, a, walk, halo, m + STRIP_AHEAD);
    return rows;
}

/* Sorts the lane's pixels of a row, and two more on either side, by channel: three words of four
 * pixels for each channel. Takes 21 PRMT. */
SIMT void strip_sort(const uint8_t *row, int lane, uint32_t (&plane)[3][3])
{
    const uint2 *from = reinterpret_cast<const uint2 *>(row + STRIP_MARGIN + lane * 24 - 8);
    uint32_t w[10]; /* from two bytes before the first pixel */
    unrolled_for (int j = 0; j < 5; j++) {
        uint2 two = from[j];
        w[2 * j] = two.x;
        w[2 * j + 1] = two.y;
    }
    unrolled_for (int g = 0; g < 3; g++) {
        uint32_t a = w[3 * g], b = w[3 * g + 1], c = w[3 * g + 2], d = w[3 * g + 3];
        plane[0][g] = __byte_perm(__byte_perm(a, b, 0x0052), c, 0x7410);
        plane[1][g] = __byte_perm(__byte_perm(a, b, 0x0063), __byte_perm(c, d, 0x0041), 0x5410);
        plane[2][g] = __byte_perm(__byte_perm(b, c, 0x0630), d, 0x5210);
    }
}

/* Writes the rows j and j + 1 of the warp's part. Each lane has six words of each row. */
SIMT void strip_store(strip_memory &memory, const strip_args &a, const strip_walk &walk, int j,
                      const uint32_t (&words)[2][6])
{
    constexpr int pieces = STRIP_ROW_BYTES / 16;
    unrolled_for (int k = 0; k < 2; k++)
        unrolled_for (int q = 0; q < 3; q++)
            reinterpret_cast<uint2 *>(memory.stage[k] + walk.lane * 24)[q] =
                make_uint2(words[k][2 * q], words[k][2 * q + 1]);
    __syncwarp();
    unrolled_for (int i = 0; i < 2 * pieces / WARP; i++) {
        int piece = walk.lane + i * WARP, k = piece / pieces, within = (piece - k * pieces) * 16;
        int offset = walk.x0 * 3 + within;
        if (j + k < walk.rows)
            row_put(a.to + (size_t)(walk.y0 + j + k) * a.to_stride, offset, a.width * 3,
                    piece_at(memory.stage[k] + within));
    }
}

/* ---- the blur ---- */

#define GAUSSIAN_STRIP_RADIUS 2
#define GAUSSIAN_STRIP_BLOCKS 4 /* per multiprocessor, limited by registers */
#define STRIP_SAMPLES (STRIP_LANE * 3)

/* The weights, as words for __dp4a and __dp2a. */
struct gaussian_strip_args {
    uint32_t across[4][2];              /* for five pixels that start at byte 0 to 3 of a word */
    uint32_t down_even[2], down_odd[2]; /* for an even and an odd row of the result */
};

SIMT void strip_sum_across(const gaussian_strip_args &a, const uint8_t *row, int lane,
                           uint32_t (&sums)[STRIP_SAMPLES])
{
    uint32_t plane[3][3];
    strip_sort(row, lane, plane);
    unrolled_for (int c = 0; c < 3; c++)
        unrolled_for (int k = 0; k < STRIP_LANE; k++)
            sums[k * 3 + c] = __dp4a(plane[c][k / 4], a.across[k % 4][0],
                                     __dp4a(plane[c][k / 4 + 1], a.across[k % 4][1], 0u));
}

/* Computes the horizontal sums of two rows, 16 bits each. */
SIMT void strip_make_pair(const gaussian_strip_args &a, const uint8_t (*rows)[STRIP_PITCH],
                          int lane, uint32_t (&pair)[STRIP_SAMPLES])
{
    uint32_t odd[STRIP_SAMPLES];
    strip_sum_across(a, rows[0], lane, pair);
    strip_sum_across(a, rows[1], lane, odd);
    unrolled_for (int k = 0; k < STRIP_SAMPLES; k++)
        pair[k] = __byte_perm(pair[k], odd[k], 0x5410);
}

SIMT void strip_sum_down(const uint32_t (&weights)[2], const uint32_t (&first)[STRIP_SAMPLES],
                         const uint32_t (&second)[STRIP_SAMPLES],
                         const uint32_t (&third)[STRIP_SAMPLES],
                         uint32_t (&words)[STRIP_SAMPLES / 4])
{
    unrolled_for (int q = 0; q < STRIP_SAMPLES / 4; q++) {
        uint32_t sums[4];
        unrolled_for (int k = 0; k < 4; k++) {
            uint32_t sum = __dp2a_lo(first[4 * q + k], weights[0], 32768u);
            sum = __dp2a_hi(second[4 * q + k], weights[0], sum);
            sums[k] = __dp2a_lo(third[4 * q + k], weights[1], sum);
        }
        words[q] = gray_pack(sums[0], sums[1], sums[2], sums[3]);
    }
}

/* Pair m has the rows y0 - 2 + 2 m and y0 - 1 + 2 m. The rows 2 q and 2 q + 1 of the warp's part
 * need the pairs q, q + 1 and q + 2. */
template <int N>
static __global__ void __launch_bounds__(STRIP_WARPS *WARP, GAUSSIAN_STRIP_BLOCKS)
    gaussian_strip_kernel(const __grid_constant__ several<strip_args, N> all,
                          const __grid_constant__ gaussian_strip_args a)
{
    __shared__ strip_memory memories[STRIP_WARPS];
    constexpr int halo = GAUSSIAN_STRIP_RADIUS;
    strip_memory &memory = memories[threadIdx.x / WARP];
    const strip_args &strip = several_own(all);
    const strip_walk walk = strip_walk_of(strip);
    await_kernel_before();
    if (walk.rows <= 0)
        return;
    uint32_t pair[3][STRIP_SAMPLES];
    unrolled_for (int m = 0; m < STRIP_AHEAD; m++)
        strip_send(memory, strip, walk, halo, m);
    unrolled_for (int m = 0; m < 2; m++)
        strip_make_pair(a, strip_next(memory, strip, walk, halo, m), walk.lane, pair[m]);
    for (int q = 0;; q += 3) {
        unrolled_for (int u = 0; u < 3; u++) { /* each pair stays in its registers */
            if (2 * (q + u) >= walk.rows)
                return;
            uint32_t words[2][STRIP_SAMPLES / 4];
            strip_make_pair(a, strip_next(memory, strip, walk, halo, q + u + 2), walk.lane,
                            pair[(u + 2) % 3]);
            strip_sum_down(a.down_even, pair[u], pair[(u + 1) % 3], pair[(u + 2) % 3], words[0]);
            strip_sum_down(a.down_odd, pair[u], pair[(u + 1) % 3], pair[(u + 2) % 3], words[1]);
            strip_store(memory, strip, walk, 2 * (q + u), words);
        }
    }
}
