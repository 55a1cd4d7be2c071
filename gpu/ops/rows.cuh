/*
 * rows.cuh - how a warp loads a stretch of 512 pixels of a row, converts it to gray, and looks it
 * up in a table.
 *
 * The lanes load 16 adjacent bytes each, and all loads are in flight before the first is used. With
 * one or four channels, 16 bytes are whole pixels. With three channels, the lanes exchange their
 * bytes through shared memory, so that each gets 16 whole pixels. A lane then reads 48 bytes; these
 * reads use all 32 banks in each quarter of a warp.
 */
#pragma once

#include <cuda_fp16.h>
#include <string.h>

#include "gpu/ops/launch.cuh"
#include "gpu/ops/prologue.h"

#define WARP 32
#define LANE_PIXELS 16
#define WARP_PIXELS (WARP * LANE_PIXELS)

/* The images of a pass, divided into stretches. The stretches of all rows are numbered, so that the
 * grid has only one dimension, whose limit of 2^31 - 1 blocks no image reaches. */
struct row_stretches : pass_images {
    int stretches, stretch_count; /* stretches per row, and in the whole image */
};

template <typename Args = row_stretches>
static inline Args row_stretches_of(const struct image *from, const struct image *to)
{
    Args args = pass_args<Args>(from, to);
    args.stretches = (args.width + WARP_PIXELS - 1) / WARP_PIXELS;
    args.stretch_count = args.stretches * args.height;
    return args;
}

static inline unsigned stretch_blocks(const row_stretches &args, int warps)
{
    return (unsigned)(args.stretch_count + warps - 1) / warps;
}

/* The weights of gray, as words for __dp2a with two weights of 16 bits each. */
struct gray_words {
    uint32_t rg, b0, r0_high, gb; /* (r, g), (b, 0), (0, r), (g, b); the first is the low half */
    uint32_t r, g, b;
    /* For RGBA: the background's red and blue in 16 bits each, and its green; and 255 times these,
     * plus 127. */
    uint32_t under_rb, under_g, base_rb, base_g;
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
    words.under_rb = gray->background[0] | (uint32_t)gray->background[2] << 16;
    words.under_g = gray->background[1];
    words.base_rb = 255u * words.under_rb + (127u << 16 | 127u);
    words.base_g = 255u * words.under_g + 127u;
    return words;
}

/* What a lane loads of a stretch with C channels: C times 16 bytes, 512 bytes apart. */
template <int C> struct row_part {
    uint4 words[C];
};

/* Loads the lane's part of the stretch that starts at pixel x0, a multiple of 512. */
template <int C>
SIMT void row_load(row_part<C> *part, const uint8_t *row, int x0, int width, int lane)
{
    unrolled_for (int j = 0; j < C; j++)
        part->words[j] = row_get<uint4>(row, x0 * C + (lane + j * WARP) * 16, width * C);
}

/* Stores the bytes that row_load would load. */
template <int C>
SIMT void row_store(uint8_t *row, const row_part<C> &part, int x0, int width, int lane)
{
    unrolled_for (int j = 0; j < C; j++)
        row_put(row, x0 * C + (lane + j * WARP) * 16, width * C, part.words[j]);
}

/* Packs byte 2 of four sums, their gray, into one word. Byte 3 of each sum is 0. Takes 3 PRMT. */
SIMT uint32_t gray_pack(uint32_t y0, uint32_t y1, uint32_t y2, uint32_t y3)
{
    uint32_t low = __byte_perm(y0, y1, 0x0062), high = __byte_perm(y2, y3, 0x0062);
    return __byte_perm(low, high, 0x5410);
}

/* Converts four RGB pixels in three words to four gray bytes. Takes 8 IDP.2A and 3 PRMT. Each sum
 * starts with 32768, for rounding. Bytes of the neighbouring pixel have a weight of 0. */
SIMT uint32_t gray_four_rgb(uint32_t w0, uint32_t w1, uint32_t w2, const gray_words &gray)
{
    uint32_t y0 = __dp2a_hi(gray.b0, w0, __dp2a_lo(gray.rg, w0, 32768u));
    uint32_t y1 = __dp2a_lo(gray.gb, w1, __dp2a_hi(gray.r0_high, w0, 32768u));
    uint32_t y2 = __dp2a_lo(gray.b0, w2, __dp2a_hi(gray.rg, w1, 32768u));
    uint32_t y3 = __dp2a_hi(gray.gb, w2, __dp2a_lo(gray.r0_high, w2, 32768u));
    return gray_pack(y0, y1, y2, y3);
}

/* Returns a sum whose byte 2 is the gray of an RGBA pixel over the background: grayscale_rgb of
 * each colour's flatten_byte. Red and blue are flattened together, in the halves of one word. Each
 * half stays below 65,536, even after a borrow between them. The flattened colours are the bytes 1
 * and 3 of the word; __dp2a weighs them there. */
SIMT uint32_t gray_sum_rgba(uint32_t pixel, const gray_words &gray)
{
    uint32_t alpha = pixel >> 24;
    uint32_t rb = ((pixel & 0x00FF00FFu) - gray.under_rb) * alpha + gray.base_rb;
    uint32_t g = ((pixel >> 8 & 255u) - gray.under_g) * alpha + gray.base_g;
    rb += (rb >> 8 & 0x00FF00FFu) + 0x00010001u;
    g += (g >> 8) + 1u;
    uint32_t sum = __dp2a_lo(gray.g << 16, g, 32768u);
    return __dp2a_hi(gray.b << 16, rb, __dp2a_lo(gray.r0_high, rb, sum));
}

SIMT uint32_t gray_four_rgba(const uint4 &four, const gray_words &gray)
{
    return gray_pack(gray_sum_rgba(four.x, gray), gray_sum_rgba(four.y, gray),
                     gray_sum_rgba(four.z, gray), gray_sum_rgba(four.w, gray));
}

/* Exchanges bytes between lanes, so that each lane gets 16 whole pixels; or, if `back`, the
 * reverse. stage: 1536 bytes of shared memory that only this warp uses, aligned to 16. All lanes of
 * the warp must call it. */
SIMT void row_turn_rgb(row_part<3> *part, uint8_t *stage, int lane, bool back = false)
{
    uint4 *pieces = reinterpret_cast<uint4 *>(stage);
    __syncwarp(); /* until all lanes have read the previous stretch */
    unrolled_for (int j = 0; j < 3; j++)
        pieces[back ? lane * 3 + j : lane + j * WARP] = part->words[j];
    __syncwarp();
    unrolled_for (int j = 0; j < 3; j++)
        part->words[j] = pieces[back ? lane + j * WARP : lane * 3 + j];
}

SIMT uint4 gray_lane_rgb(const row_part<3> &part, const gray_words &gray)
{
    const uint4 a = part.words[0], b = part.words[1], c = part.words[2];
    return make_uint4(gray_four_rgb(a.x, a.y, a.z, gray), gray_four_rgb(a.w, b.x, b.y, gray),
                      gray_four_rgb(b.z, b.w, c.x, gray), gray_four_rgb(c.y, c.z, c.w, gray));
}

/* ---- pairs of pixels: two values of 16 bits in a word ---- */

SIMT __half2 pair_of(uint32_t word)
{
    return *reinterpret_cast<__half2 *>(&word);
}

SIMT uint32_t word_of_pair(__half2 pair)
{
    return *reinterpret_cast<uint32_t *>(&pair);
}

/* The pair that starts one pixel before `right`: the second value of `left`, the first of
 * `right`. */
SIMT __half2 pair_between(__half2 left, __half2 right)
{
    return pair_of(__byte_perm(word_of_pair(left), word_of_pair(right), 0x5432));
}

/*
 * ---- lookup tables of 256 bytes, one after the other, in shared memory ----
 *
 * The tables are launch arguments, because these belong to one launch only. Launch arguments are in
 * constant memory, which serves only one address of a warp at a time. Kernels therefore copy the
 * tables to shared memory first.
 */

/* Bytes of the argument, and of the shared memory, of a kernel with an optional table. */
#define TABLE_BYTES(looks_up) ((looks_up) ? 256 : 16)

template <bool TABLE> struct table_argument {
    uint4 pieces[TABLE_BYTES(TABLE) / 16];
};

template <bool TABLE>
static inline table_argument<TABLE> table_argument_of(const struct prologue *prologue)
{
    table_argument<TABLE> argument;
    memcpy(argument.pieces, prologue->table, sizeof(argument.pieces));
    return argument;
}

/* Copies the first COUNT tables to shared memory. Each warp copies a part, one piece at a time, so
 * that the cache misses of different warps overlap. */
template <int COUNT, int WARPS, int PIECES>
SIMT void tables_copy(uint8_t *shared, const uint4 (&pieces)[PIECES], int warp, int lane)
{
    constexpr int count = 16 * COUNT, share = (count + WARPS - 1) / WARPS;
    unrolled_for (int k = 0; k < share; k++) {
        int i = warp * share + k;
        if (count % WARPS != 0 && i >= count)
            break;
        uint4 piece = pieces[i];
        if (lane == k)
            reinterpret_cast<uint4 *>(shared)[i] = piece;
    }
}

SIMT uint32_t word_of(uint32_t b0, uint32_t b1, uint32_t b2, uint32_t b3)
{
    return __byte_perm(__byte_perm(b0, b1, 0x0040), __byte_perm(b2, b3, 0x0040), 0x5410);
}

/* Looks up four bytes, or the three colours of an RGBA pixel. */
template <bool ALPHA> SIMT uint32_t look_up(uint32_t word, const uint8_t *table)
{
    uint32_t b0 = table[word & 255u], b1 = table[word >> 8 & 255u];
    uint32_t b2 = table[word >> 16 & 255u], b3 = word >> 24;
    return word_of(b0, b1, b2, ALPHA ? b3 : table[b3]);
}

template <bool ALPHA> SIMT uint4 look_up_four(const uint4 &four, const uint8_t *table)
{
    return make_uint4(look_up<ALPHA>(four.x, table), look_up<ALPHA>(four.y, table),
                      look_up<ALPHA>(four.z, table), look_up<ALPHA>(four.w, table));
}

/*
 * ---- sweeps ----
 *
 * For kernels that add up values over the image. The grid has only as many blocks as run at once,
 * and each warp processes many stretches. Fewer blocks need fewer atomics on the result.
 */

#define SWEEP_WARPS 16
#define SWEEP_THREADS (SWEEP_WARPS * WARP)

/* Number of blocks of a sweep. Of n warps in the grid, warp w processes the stretches w, w + n and
 * so on: see sweep_place. warps: per block; blocks_an_sm: resident blocks per multiprocessor. */
static inline unsigned sweep_blocks(const row_stretches &args, int warps, int blocks_an_sm)
{
    return min(stretch_blocks(args, warps), (unsigned)(multiprocessors() * blocks_an_sm));
}

/* The position of a warp. To advance it needs only additions, because a division would cost about
 * as much as counting 16 pixels. */
struct sweep_place {
    int y, x0;
    int rows_a_step, pixels_a_step; /* how far a step moves down, and to the right */
    int row_pixels;                 /* of a row, rounded up to whole stretches */
};

SIMT sweep_place sweep_begin(int item, int step, int stretches)
{
    int y = item / stretches, rows = step / stretches;
    return {y, (item - y * stretches) * WARP_PIXELS, rows, (step - rows * stretches) * WARP_PIXELS,
            stretches * WARP_PIXELS};
}

SIMT void sweep_next(sweep_place *at)
{
    at->y += at->rows_a_step;
    at->x0 += at->pixels_a_step;
    if (at->x0 >= at->row_pixels) {
        at->x0 -= at->row_pixels;
        at->y++;
    }
}

/* Converts a lane's sixteen pixels to gray. stage: as for row_turn_rgb; only used for three
 * channels. */
template <int C>
SIMT uint4 gray_lane(row_part<C> *part, uint8_t *stage, int lane, const gray_words &gray)
{
    if constexpr (C == 1) {
        return part->words[0];
    } else if constexpr (C == 3) {
        row_turn_rgb(part, stage, lane);
        return gray_lane_rgb(*part, gray);
    } else {
        return make_uint4(
            gray_four_rgba(part->words[0], gray), gray_four_rgba(part->words[1], gray),
            gray_four_rgba(part->words[2], gray), gray_four_rgba(part->words[3], gray));
    }
}
