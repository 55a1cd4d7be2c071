/*
 * rows.cuh - how a warp takes 512 pixels of a row and makes gray of them.
 *
 * A warp loads its stretch with 16-byte reads of neighbouring lanes, all in flight before the
 * first is used. Four channels and one are where they belong at once (16 bytes hold whole
 * pixels); three go through shared memory, so that each lane gets 16 whole pixels: reading 48
 * bytes a lane at a stride of 48 bytes touches all 32 banks in each quarter of a warp.
 */
#ifndef GPUIMGD_GPU_OPS_ROWS_CUH
#define GPUIMGD_GPU_OPS_ROWS_CUH

#include <cuda_runtime.h>

#include "gpu/ops/grayscale.h"

#define WARP 32
#define LANE_PIXELS 16
#define WARP_PIXELS (WARP * LANE_PIXELS)

/* Weights as __dp2a takes them: two of 16 bits in a word, for pixels at four places in a word. */
struct gray_words {
    uint32_t rg, b0, r0_high, gb; /* (r, g), (b, 0), (0, r), (g, b); first one low */
    uint32_t r, g, b;
    uint32_t under[3];
};

static inline struct gray_words gray_words_of(const struct grayscale *gray)
{
    struct gray_words words;
    words.rg = gray->r | (uint32_t)gray->g << 16;
    words.b0 = gray->b;
    words.r0_high = (uint32_t)gray->r << 16;
    words.gb = gray->g | (uint32_t)gray->b << 16;
    words.r = gray->r;
    words.g = gray->g;
    words.b = gray->b;
    for (int c = 0; c < 3; c++)
        words.under[c] = gray->background[c];
    return words;
}

/* What a lane holds of a stretch: C times 16 bytes, each 512 bytes after the other. */
template <int C> struct row_part {
    uint4 words[C];
};

/* Loads the stretch that begins at pixel x0 (a multiple of 512) of a row. A 16-byte piece is
 * read when it holds a byte of the row; it then lies within the stride, a multiple of 32. */
template <int C>
static __device__ __forceinline__ void row_load(row_part<C> *part, const uint8_t *row, int x0,
                                                int width, int lane)
{
#pragma unroll
    for (int j = 0; j < C; j++) {
        int offset = x0 * C + (lane + j * WARP) * 16;
        part->words[j] = make_uint4(0, 0, 0, 0);
        if (offset < width * C)
            part->words[j] = __ldg(reinterpret_cast<const uint4 *>(row + offset));
    }
}

/* Bytes 2 of four sums (their gray; bytes 3 are 0) as one word: 3 PRMT. */
static __device__ __forceinline__ uint32_t gray_pack(uint32_t y0, uint32_t y1, uint32_t y2,
                                                     uint32_t y3)
{
    uint32_t low = __byte_perm(y0, y1, 0x0062), high = __byte_perm(y2, y3, 0x0062);
    return __byte_perm(low, high, 0x5410);
}

/* Four RGB pixels in three words to four gray bytes: 8 IDP.2A, 3 PRMT. Each sum begins with the
 * rounding 32768, and no product leaves its pixel: the weight beside it is 0. */
static __device__ __forceinline__ uint32_t gray_four_rgb(uint32_t w0, uint32_t w1, uint32_t w2,
                                                         const gray_words &gray)
{
    uint32_t y0 = __dp2a_hi(gray.b0, w0, __dp2a_lo(gray.rg, w0, 32768u));
    uint32_t y1 = __dp2a_lo(gray.gb, w1, __dp2a_hi(gray.r0_high, w0, 32768u));
    uint32_t y2 = __dp2a_lo(gray.b0, w2, __dp2a_hi(gray.rg, w1, 32768u));
    uint32_t y3 = __dp2a_hi(gray.gb, w2, __dp2a_lo(gray.r0_high, w2, 32768u));
    return gray_pack(y0, y1, y2, y3);
}

static __device__ __forceinline__ uint32_t gray_one_rgba(uint32_t pixel, const gray_words &gray)
{
    uint32_t alpha = pixel >> 24;
    return grayscale_rgb(flatten_byte(pixel & 255u, alpha, gray.under[0]),
                         flatten_byte(pixel >> 8 & 255u, alpha, gray.under[1]),
                         flatten_byte(pixel >> 16 & 255u, alpha, gray.under[2]), gray.r, gray.g,
                         gray.b);
}

static __device__ __forceinline__ uint32_t gray_four_rgba(const uint4 &four,
                                                          const gray_words &gray)
{
    return gray_one_rgba(four.x, gray) | gray_one_rgba(four.y, gray) << 8 |
           gray_one_rgba(four.z, gray) << 16 | gray_one_rgba(four.w, gray) << 24;
}

/* The 16 pixels of a lane, 48 bytes, gathered from the stretch through `stage` (1536 bytes that
 * this warp has to itself, 16-byte aligned). All lanes of the warp call it. */
static __device__ __forceinline__ void row_turn_rgb(row_part<3> *part, uint8_t *stage, int lane)
{
    uint4 *pieces = reinterpret_cast<uint4 *>(stage);
    __syncwarp(); /* the stretch before this one has been read */
#pragma unroll
    for (int j = 0; j < 3; j++)
        pieces[lane + j * WARP] = part->words[j];
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 3; j++)
        part->words[j] = pieces[lane * 3 + j];
}

/* The way back: pixels that each lane has, to pieces that lie side by side across the lanes. */
static __device__ __forceinline__ void row_return_rgb(row_part<3> *part, uint8_t *stage, int lane)
{
    uint4 *pieces = reinterpret_cast<uint4 *>(stage);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 3; j++)
        pieces[lane * 3 + j] = part->words[j];
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 3; j++)
        part->words[j] = pieces[lane + j * WARP];
}

static __device__ __forceinline__ uint4 gray_lane_rgb(const row_part<3> &part,
                                                      const gray_words &gray)
{
    const uint4 a = part.words[0], b = part.words[1], c = part.words[2];
    return make_uint4(gray_four_rgb(a.x, a.y, a.z, gray), gray_four_rgb(a.w, b.x, b.y, gray),
                      gray_four_rgb(b.z, b.w, c.x, gray), gray_four_rgb(c.y, c.z, c.w, gray));
}

#endif
