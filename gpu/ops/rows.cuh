/*
 * rows.cuh - loads 512 pixels of a row per warp, converts them to gray and looks them up.
 *
 * A warp loads its stretch with 16-byte reads of neighbouring lanes, all in flight before the
 * first is used. Pixels of one and four channels are in place at once, because 16 bytes hold whole
 * pixels. Pixels of three channels are exchanged through shared memory, so that each lane gets 16
 * whole pixels. Its reads of 48 bytes at a stride of 48 bytes use all 32 banks in each quarter of
 * a warp.
 */
#pragma once

#include <cuda_fp16.h>
#include <string.h>

#include "gpu/ops/launch.cuh"
#include "gpu/ops/prologue.h"

#define WARP 32
#define LANE_PIXELS 16
#define WARP_PIXELS (WARP * LANE_PIXELS)

/* The images of a pass whose warps process a stretch each. Stretches are numbered through all rows,
 * so that the grid has one dimension, whose limit of 2^31 - 1 blocks no image reaches. */
struct row_stretches : pass_images {
    int stretches, stretch_count; /* per row, in the image */
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

/* Weights for __dp2a: pairs of 16 bits per word, for pixels at four positions in a word. */
struct gray_words {
    uint32_t rg, b0, r0_high, gb; /* (r, g), (b, 0), (0, r), (g, b); the first one low */
    uint32_t r, g, b;
    /* RGBA: the background's red and blue in 16 bits each, its green, and 255 times each + 127. */
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

/* A lane's part of a stretch: C times 16 bytes, 512 bytes apart. */
template <int C> struct row_part {
    uint4 words[C];
};

/* Loads the stretch at pixel x0 (a multiple of 512) of a row. */
template <int C>
SIMT void row_load(row_part<C> *part, const uint8_t *row, int x0, int width, int lane)
{
    unrolled_for (int j = 0; j < C; j++)
        part->words[j] = row_get<uint4>(row, x0 * C + (lane + j * WARP) * 16, width * C);
}

/* Writes what row_load loads. */
template <int C>
SIMT void row_store(uint8_t *row, const row_part<C> &part, int x0, int width, int lane)
{
    unrolled_for (int j = 0; j < C; j++)
        row_put(row, x0 * C + (lane + j * WARP) * 16, width * C, part.words[j]);
}

/* Packs byte 2 of four sums (their gray; byte 3 is 0) into one word: 3 PRMT. */
SIMT uint32_t gray_pack(uint32_t y0, uint32_t y1, uint32_t y2, uint32_t y3)
{
    uint32_t low = __byte_perm(y0, y1, 0x0062), high = __byte_perm(y2, y3, 0x0062);
    return __byte_perm(low, high, 0x5410);
}

/* Converts four RGB pixels in three words to four gray bytes: 8 IDP.2A, 3 PRMT. Each sum starts
 * with 32768 for rounding. Bytes of the neighbouring pixel have a weight of 0. */
SIMT uint32_t gray_four_rgb(uint32_t w0, uint32_t w1, uint32_t w2, const gray_words &gray)
{
    uint32_t y0 = __dp2a_hi(gray.b0, w0, __dp2a_lo(gray.rg, w0, 32768u));
    uint32_t y1 = __dp2a_lo(gray.gb, w1, __dp2a_hi(gray.r0_high, w0, 32768u));
    uint32_t y2 = __dp2a_lo(gray.b0, w2, __dp2a_hi(gray.rg, w1, 32768u));
    uint32_t y3 = __dp2a_hi(gray.gb, w2, __dp2a_lo(gray.r0_high, w2, 32768u));
    return gray_pack(y0, y1, y2, y3);
}

/* A sum whose byte 2 is the gray of an RGBA pixel over the background: grayscale_rgb of each
 * colour's flatten_byte. Red and blue are flattened together in one word. Its halves stay below
 * 65,536, even after a borrow between them. The weights apply to bytes 1 and 3 in place. */
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

/* Gathers the lane's 16 pixels, 48 bytes, from the stretch through `stage`: 1536 bytes that only
 * this warp uses, 16-byte aligned. back: the reverse. All lanes of the warp must call it. */
SIMT void row_turn_rgb(row_part<3> *part, uint8_t *stage, int lane, bool back = false)
{
    uint4 *pieces = reinterpret_cast<uint4 *>(stage);
    __syncwarp(); /* all lanes have read the previous stretch */
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

/* ---- pairs of pixels, in 16 bits each ---- */

SIMT __half2 pair_of(uint32_t word)
{
    return *reinterpret_cast<__half2 *>(&word);
}

SIMT uint32_t word_of_pair(__half2 pair)
{
    return *reinterpret_cast<uint32_t *>(&pair);
}

/* (high half of left, low half of right): the pair that starts one pixel before `right`. */
SIMT __half2 pair_between(__half2 left, __half2 right)
{
    return pair_of(__byte_perm(word_of_pair(left), word_of_pair(right), 0x5432));
}

/*
 * ---- lookup tables of 256 bytes, one after the other, in shared memory ----
 *
 * The tables are launch arguments, which belong to one launch alone and are in constant memory.
 * Constant memory serves one address of a warp at a time. A table in shared memory fills two rows
 * of the 32 banks.
 */

/* Argument and shared memory of a kernel with an optional table. */
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

/* Copies the first COUNT tables to shared memory. Each warp reads its own pieces, one address at a
 * time, so that the cache misses of all warps overlap. */
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
 * A grid that fills the device once and walks over all rows, for kernels whose blocks reduce
 * values: fewer blocks need fewer atomics on the result.
 */

#define SWEEP_WARPS 16
#define SWEEP_THREADS (SWEEP_WARPS * WARP)

/* Warp w processes stretch w, w + the number of warps, and so on: sweep_place. warps: per block.
 * blocks_an_sm: resident blocks per multiprocessor. */
static inline unsigned sweep_blocks(const row_stretches &args, int warps, int blocks_an_sm)
{
    return min(stretch_blocks(args, warps), (unsigned)(multiprocessors() * blocks_an_sm));
}

/* The position of a warp. It advances by addition: a division costs about as much as counting 16
 * pixels. */
struct sweep_place {
    int y, x0;
    int rows_a_step, pixels_a_step; /* one step: down by rows, then right by pixels */
    int row_pixels;                 /* of all stretches of a row */
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

/* Converts a lane's sixteen pixels to gray. stage: as for row_turn_rgb; used for three channels
 * only. */
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
