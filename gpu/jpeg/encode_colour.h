/*
 * encode_colour.h - encodes a tile of an RGB image: conversion to YCbCr, subsampling and coding.
 *
 * A tile has 32 MCUs. A block of threads first converts the tile's pixels to planes of Y, Cb and Cr
 * in shared memory. Then each warp encodes blocks of one component: the last two warps Cb and Cr,
 * all others Y. The arguments h and v are the sampling factors of Y; each kernel passes constants.
 */
#pragma once

#include "gpu/jpeg/encode_tile.h"

#define COLOUR_BLOCKS(h, v) ((h) * (v) + 2)
#define COLOUR_THREADS(h, v) (COLOUR_TILE_MCUS * COLOUR_BLOCKS(h, v))
#define COLOUR_SHARED(h, v) (DCT_AREA * COLOUR_THREADS(h, v) * sizeof(uint32_t))
/* Bytes per 8 x 8 block in the planes: 64 samples, and 16 bytes that prevent bank conflicts. */
#define PLANE_BYTES 80

/* The conversions of libjpeg's jccolor.c: fixed point with 16 bits, with its rounding. */
SIMT int luma_of(int r, int g, int b) { return (19595 * r + 38470 * g + 7471 * b + 32768) >> 16; }
#define CHROMA_OFFSET ((128 << 16) + 32767)
SIMT int cb_of(int r, int g, int b)
{
    return (-11059 * r - 21709 * g + 32768 * b + CHROMA_OFFSET) >> 16;
}
SIMT int cr_of(int r, int g, int b)
{
    return (32768 * r - 27439 * g - 5329 * b + CHROMA_OFFSET) >> 16;
}

/* Loads 4 pixels of RGB to 3 words. x is a multiple of 4. Pixels outside of the image repeat its
 * last column and row. */
SIMT void load_pixels(const struct encode_descriptor *image, int x, int y, uint32_t pixels[3])
{
    const uint8_t *row =
        image->pixels + (size_t)min_int(y, (int)image->height - 1) * image->stride;
    if (x + 4 <= (int)image->width) {
        UNROLL
        for (int i = 0; i < 3; i++)
            pixels[i] = load_word(row + x * 3 + i * 4);
        return;
    }
    pixels[0] = pixels[1] = pixels[2] = 0;
    UNROLL
    for (int i = 0; i < 12; i++) {
        int column = min_int(x + i / 3, (int)image->width - 1);
        pixels[i / 4] |= (uint32_t)row[column * 3 + i % 3] << i % 4 * 8;
    }
}

SIMT int byte_of(const uint32_t words[3], int i) { return (int)(words[i / 4] >> i % 4 * 8 & 0xFF); }

/* Converts 4 pixels. Returns their samples of Y. Adds their samples of Cb and Cr to cb and cr,
 * which have a sum for each h pixels. */
SIMT uint32_t convert_pixels(const uint32_t pixels[3], int h, int cb[4], int cr[4])
{
    uint32_t luma = 0;
    UNROLL
    for (int i = 0; i < 4; i++) {
        int r = byte_of(pixels, 3 * i), g = byte_of(pixels, 3 * i + 1);
        int b = byte_of(pixels, 3 * i + 2);
        luma |= (uint32_t)luma_of(r, g, b) << 8 * i;
        cb[i / h] += cb_of(r, g, b);
        cr[i / h] += cr_of(r, g, b);
    }
    return luma;
}

/* Writes 4 / h samples of Cb or Cr: the sums, divided by the number of their pixels. */
SIMT void store_chroma(uint8_t *to, const int sums[4], int h, int v)
{
    int shift = h * v / 2;
    uint32_t samples = 0;
    UNROLL
    for (int i = 0; i < 4 / h; i++)
        samples |= (uint32_t)(sums[i] >> shift) << 8 * i;
    if (h == 1)
        *(uint32_t *)to = samples;
    else
        *(uint16_t *)to = (uint16_t)samples;
}

/* Converts 4 x v pixels of an MCU to samples in the MCU's planes. quad: their position across, in
 * units of 4 pixels; row: down, in units of v pixels. */
SIMT void convert_quad(const struct encode_descriptor *image, struct unit_position mcu, int quad,
                       int row, int h, int v, uint8_t *planes)
{
    int x = (mcu.x * h * 2 + quad) * 4, y = (mcu.y * DCT_SIDE + row) * v;
    int block = row * v / DCT_SIDE * h + quad / 2;
    uint8_t *luma = planes + block * PLANE_BYTES + row * v % DCT_SIDE * DCT_SIDE + quad % 2 * 4;
    uint8_t *chroma = planes + h * v * PLANE_BYTES + row * DCT_SIDE + quad * 4 / h;
    /* The rounding of libjpeg's jcsample.c: it adds 0 and 1 in turn to sums of two samples, and 1
     * and 2 to sums of four. */
    int bias = v - 1, step = h - 1;
    int cb[4] = {bias, bias + step, 0, 0}, cr[4] = {bias, bias + step, 0, 0};
    if (y < (int)image->height || v == 1) {
        UNROLL
        for (int i = 0; i < v; i++) {
            uint32_t pixels[3];
            load_pixels(image, x, y + i, pixels);
            *(uint32_t *)(luma + i * DCT_SIDE) = convert_pixels(pixels, h, cb, cr);
        }
    } else { /* Below the image, libjpeg repeats the last row of Y, and the last row of the
                subsampled Cb and Cr. */
        int last = ((int)image->height - 1) / v * v;
        uint32_t pixels[3];
        UNROLL
        for (int i = 0; i < v; i++) {
            load_pixels(image, x, last + i, pixels);
            uint32_t samples = convert_pixels(pixels, h, cb, cr);
            UNROLL
            for (int k = 0; k < v && i == v - 1; k++)
                *(uint32_t *)(luma + k * DCT_SIDE) = samples;
        }
    }
    store_chroma(chroma, cb, h, v);
    store_chroma(chroma + PLANE_BYTES, cr, h, v);
}

/* Fills the planes of the tile's MCUs, and of the MCU before the tile: the tile's first DC
 * differences need its DC coefficients. */
SIMT void convert_tile(const struct encode_descriptor *image, int tile, int h, int v,
                       uint8_t *planes)
{
    const int quads = 2 * h, per_row = quads * COLOUR_TILE_MCUS;
    for (int i = thread_index(); i < per_row * DCT_SIDE + quads * DCT_SIDE;
         i += COLOUR_THREADS(h, v)) {
        bool before = i >= per_row * DCT_SIDE;
        int place = before ? COLOUR_TILE_MCUS : i / quads % COLOUR_TILE_MCUS;
        int row = before ? i / quads % DCT_SIDE : i / per_row;
        int unit = tile * COLOUR_TILE_MCUS + (before ? -1 : place);
        if (unit >= 0 && unit < (int)image->unit_count)
            convert_quad(image, position_of(image, (uint32_t)unit), i % quads, row, h, v,
                         planes + place * COLOUR_BLOCKS(h, v) * PLANE_BYTES);
    }
}

/* Which blocks of Y in an MCU are dummies: those in the right column, or in the bottom row, if the
 * image ends before them. libjpeg gives a dummy block the DC coefficient of the block before it,
 * and no AC coefficients. */
struct dummy_blocks {
    bool right, bottom;
};

SIMT struct dummy_blocks dummies_of(const struct encode_descriptor *image, struct unit_position mcu,
                                    int h, int v)
{
    struct dummy_blocks dummies = {
        h == 2 && (mcu.x * 2 + 1) * DCT_SIDE >= (int)image->width,
        v == 2 && (mcu.y * 2 + 1) * DCT_SIDE >= (int)image->height};
    return dummies;
}

/* The number of the last block of Y in the MCU that is not a dummy. */
SIMT int last_luma(struct dummy_blocks dummies, int h, int v)
{
    int row = dummies.bottom ? 0 : v - 1, column = dummies.right ? 0 : h - 1;
    return row * h + column;
}

/* A block of a tile: the number of its MCU in the tile, and its number in the MCU. */
struct mcu_block {
    int mcu, index;
    bool luma;
};

SIMT struct mcu_block block_of_thread(int h, int v)
{
    const int lumas = h * v;
    int thread = thread_index(), chroma = thread - lumas * COLOUR_TILE_MCUS;
    struct mcu_block block;
    block.luma = chroma < 0;
    block.mcu = block.luma ? thread / lumas : chroma % COLOUR_TILE_MCUS;
    block.index = block.luma ? thread % lumas : lumas + chroma / COLOUR_TILE_MCUS;
    return block;
}

/* Computes the difference of the block's DC coefficient to that of the block before it of the same
 * component. dc: the coefficients of the MCU before the tile, then those of all blocks of the tile
 * in the order of the file. false: the block is a dummy. */
SIMT bool difference_of(const struct encode_descriptor *image, struct mcu_block block, int tile,
                        int h, int v, const int *dc, int *difference)
{
    const int blocks = COLOUR_BLOCKS(h, v);
    int unit = tile * COLOUR_TILE_MCUS + block.mcu, before = block.mcu * blocks + block.index;
    const int own = before + blocks;
    *difference = 0;
    if (block.luma && h > 1) {
        struct dummy_blocks dummies = dummies_of(image, position_of(image, (uint32_t)unit), h, v);
        if ((dummies.right && block.index % h == 1) || (dummies.bottom && block.index >= h))
            return false;
        if (block.index > 0) {
            before = own - (dummies.right && block.index == h ? h : 1);
        } else if (unit > 0) {
            dummies = dummies_of(image, position_of(image, (uint32_t)(unit - 1)), h, v);
            before += last_luma(dummies, h, v);
        }
    }
    *difference = dc[own] - dc[before];
    return true;
}

/* Writes the DC coefficients of the MCU before the tile to `dc`; zeros before the first tile.
 * Threads 0 to 2 do one component each. */
SIMT void write_dc_before(const struct encode_descriptor *image, int tile, int h, int v,
                          const uint8_t *planes, const float *reciprocals, int *dc)
{
    int thread = thread_index(), index = h * v + thread - 1;
    if (thread >= 3)
        return;
    int unit = tile * COLOUR_TILE_MCUS - 1, sum = 0;
    if (thread == 0)
        index = unit < 0 ? 0
                         : last_luma(dummies_of(image, position_of(image, (uint32_t)unit), h, v),
                                     h, v);
    const uint32_t *samples = (const uint32_t *)(planes + (COLOUR_TILE_MCUS * COLOUR_BLOCKS(h, v) +
                                                           index) * PLANE_BYTES);
    for (int i = 0; i < 16 && unit >= 0; i++)
        sum = dot_bytes(samples[i], 0x01010101, sum);
    dc[index] = unit < 0 ? 0 : dc_of_sum(sum, reciprocals + (thread > 0 ? DCT_AREA : 0));
}

/* The shared memory of a colour kernel, besides planes and coefficients. */
struct colour_state {
    words4 reciprocals[2 * DCT_AREA / 4];
    uint32_t codes[2 * CODES_WORDS];
    int dc[COLOUR_BLOCKS_MAX * (COLOUR_TILE_MCUS + 1)];
    uint32_t lengths[COLOUR_BLOCKS_MAX * COLOUR_TILE_MCUS];
    uint32_t sums[WARP_LANES];
    uint32_t window[COLOUR_BLOCKS_MAX * COLOUR_TILE_MCUS * COLOUR_JOINED + 1];
    struct join_state join;
};

/* Transforms the thread's block. words: has the planes before, and the coefficients after. */
SIMT struct nonzeros transform_colour(const struct encode_descriptor *image, struct mcu_block block,
                                      int tile, int h, int v, uint32_t *words,
                                      struct colour_state *state)
{
    const int blocks = COLOUR_BLOCKS(h, v);
    int order = block.mcu * blocks + block.index;
    bool valid = tile * COLOUR_TILE_MCUS + block.mcu < (int)image->unit_count;
    const words4 *plane = (const words4 *)((const uint8_t *)words + order * PLANE_BYTES);
    const float *reciprocals = (const float *)state->reciprocals;
    struct nonzeros nonzeros = {0, 0};
    uint32_t samples[16];
    UNROLL
    for (int i = 0; i < 4; i++) {
        words4 four = plane[i];
        samples[4 * i] = four.x;
        samples[4 * i + 1] = four.y;
        samples[4 * i + 2] = four.z;
        samples[4 * i + 3] = four.w;
    }
    write_dc_before(image, tile, h, v, (const uint8_t *)words, reciprocals, state->dc);
    block_barrier(); /* the coefficients replace the planes */
    if (valid)
        nonzeros = transform_block(samples, state->reciprocals + (block.luma ? 0 : DCT_AREA / 4),
                                   words + thread_index(), COLOUR_THREADS(h, v),
                                   &state->dc[order + blocks]);
    block_barrier();
    return nonzeros;
}

/* The body of the kernels for colour. words: COLOUR_SHARED bytes. */
SIMT void encode_colour(const struct encode_args *args, int h, int v, uint32_t *words,
                        struct colour_state *state)
{
    const int blocks = COLOUR_BLOCKS(h, v), threads = COLOUR_THREADS(h, v);
    int tile, thread = thread_index();
    struct encode_descriptor *image = find_tile(args, &tile);
    if (!image)
        return;
    load_tables(args, image, 2, state->codes, state->reciprocals);
    convert_tile(image, tile, h, v, (uint8_t *)words);
    block_barrier();
    struct mcu_block block = block_of_thread(h, v);
    struct nonzeros nonzeros = transform_colour(image, block, tile, h, v, words, state);
    struct block_bits bits = {thread, 0, 0};
    if (tile * COLOUR_TILE_MCUS + block.mcu < (int)image->unit_count) {
        int difference;
        if (!difference_of(image, block, tile, h, v, state->dc, &difference))
            nonzeros.high = nonzeros.low = 0;
        bits.bits = encode_block(nonzeros, difference, words, thread, threads,
                                 state->codes + (block.luma ? 0 : CODES_WORDS));
    }
    /* The threads are ordered by component, but the bits must be in the order of the file. */
    int order = block.mcu * blocks + block.index;
    uint32_t total;
    state->lengths[order] = bits.bits;
    block_barrier();
    uint32_t offset = block_scan(state->lengths[thread], &total, state->sums);
    state->lengths[thread] = offset;
    block_barrier();
    bits.offset = state->lengths[order];
    join_tile(&bits, words, threads, total, state->window, threads * COLOUR_JOINED, &state->join,
              image, tile);
}
