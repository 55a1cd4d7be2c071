/*
 * encode_gray.h - loads the blocks of a tile of a gray image, and exchanges them between warps.
 */
#pragma once

#include "gpu/jpeg/encode_tile.h"

#define GRAY_THREADS GRAY_TILE_BLOCKS
#define GRAY_WARPS (GRAY_THREADS / WARP_LANES)

/* Returns the row with all samples after the first `valid` replaced by the last of these, as
 * libjpeg pads rows. */
SIMT words2 repeat_last(words2 row, int valid)
{
    uint64_t samples = (uint64_t)row.y << 32 | row.x;
    uint64_t beyond = ~0ull << 8 * valid, last = samples >> 8 * (valid - 1) & 0xFF;
    samples = (samples & ~beyond) | (last * 0x0101010101010101ull & beyond);
    row.x = (uint32_t)samples;
    row.y = (uint32_t)(samples >> 32);
    return row;
}

/* Loads 8 samples from column x on, which is inside the image. Below the image, the last row is
 * repeated. The function may read the bytes between the end of a row and its stride. */
SIMT words2 load_gray_row(const struct encode_descriptor *image, int x, int y)
{
    int row = min_int(y, (int)image->height - 1), valid = (int)image->width - x;
    words2 samples = load_words2(image->pixels + (size_t)row * image->stride + x);
    return valid < DCT_SIDE ? repeat_last(samples, valid) : samples;
}

SIMT void load_gray_block(const struct encode_descriptor *image, struct unit_position block,
                          uint32_t samples[16])
{
    int x = block.x * DCT_SIDE, y = block.y * DCT_SIDE;
    const uint8_t *from = image->pixels + (size_t)y * image->stride + x;
    uint32_t stride = image->stride;
    bool inside = x + DCT_SIDE <= (int)image->width && y + DCT_SIDE <= (int)image->height;
    UNROLL
    for (int row = 0; row < DCT_SIDE; row++) {
        words2 loaded = inside ? load_words2(from + (size_t)((uint32_t)row * stride))
                               : load_gray_row(image, x, y + row);
        samples[2 * row] = loaded.x;
        samples[2 * row + 1] = loaded.y;
    }
}

/* Returns to lane 0 the sum of the samples of the block before the tile, which gives its DC
 * coefficient; 0 if there is no such block. All lanes of one warp call it. */
SIMT int sum_before_tile(const struct encode_descriptor *image, int tile)
{
    uint32_t sum = 0;
    if (lane_index() < DCT_SIDE && tile > 0) {
        struct unit_position at = position_of(image, (uint32_t)(tile * GRAY_TILE_BLOCKS - 1));
        words2 row = load_gray_row(image, at.x * DCT_SIDE, at.y * DCT_SIDE + lane_index());
        sum = (uint32_t)dot_bytes(row.x, 0x01010101, dot_bytes(row.y, 0x01010101, 0));
    }
    for (int by = DCT_SIDE / 2; by > 0; by /= 2)
        sum += warp_read_down(sum, by);
    return (int)sum;
}

SIMT void swap_to_ascend(uint32_t *a, uint32_t *b)
{
    uint32_t low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;
    *a = low;
    *b = high;
}

/* The blocks of a tile between the DCT and the coding. A warp codes as long as its lane with the
 * most nonzero coefficients needs. To make that equal for the lanes of a warp, the lanes with the
 * same index in the 4 warps exchange their blocks: that of warp 0 takes the block with the fewest
 * coefficients, and so on. A lane's coefficients stay in the same bank of shared memory. */
struct gray_blocks {
    uint32_t high[GRAY_THREADS], low[GRAY_THREADS];
    uint32_t keys[GRAY_THREADS]; /* 4 * nonzero coefficients + warp */
    uint32_t lengths[GRAY_THREADS];
};

/* Returns the number of the block that the thread codes. */
SIMT int choose_block(const struct gray_blocks *blocks)
{
    int lane = lane_index(), warp = thread_index() / WARP_LANES;
    uint32_t keys[GRAY_WARPS];
    UNROLL
    for (int i = 0; i < GRAY_WARPS; i++)
        keys[i] = blocks->keys[i * WARP_LANES + lane];
    swap_to_ascend(&keys[0], &keys[1]);
    swap_to_ascend(&keys[2], &keys[3]);
    swap_to_ascend(&keys[0], &keys[2]);
    swap_to_ascend(&keys[1], &keys[3]);
    swap_to_ascend(&keys[1], &keys[2]);
    uint32_t key = warp & 2 ? (warp & 1 ? keys[3] : keys[2]) : (warp & 1 ? keys[1] : keys[0]);
    return (int)(key % GRAY_WARPS) * WARP_LANES + lane;
}
