/*
 * coefficients.h - how the decoder stores the quantised coefficients of an image on the device.
 *
 * Each component is an array of int16_t. Its blocks are numbered in raster order; blocks that only
 * pad an MCU are left out. 32 consecutive blocks form a group of 2,048 values: first the DC
 * coefficients of all 32 blocks, then their first AC coefficients, and so on in zigzag order. If
 * each lane of a warp handles one block of a group, the warp thus reads each coefficient as 64
 * consecutive bytes. The last group is filled up: the values of missing blocks are 0.
 */
#pragma once

#include "codecs/jpeg/frame.h"
#include "gpu/simt/simt.h"

#define JPEG_BLOCK        64 /* coefficients */
#define JPEG_GROUP_BLOCKS 32
#define JPEG_GROUP (JPEG_GROUP_BLOCKS * JPEG_BLOCK)

/* A component's coefficients. */
struct jpeg_plane {
    const int16_t *values; /* device address, a multiple of 256; in jpeg_progressive_image.work */
    uint32_t across, down; /* size in blocks */
};

/* Returns the index of a coefficient. block < 2^26; zigzag: 0 to 63. */
DEVICE uint32_t jpeg_coefficient(uint32_t block, uint32_t zigzag)
{
    return block / JPEG_GROUP_BLOCKS * JPEG_GROUP + zigzag * JPEG_GROUP_BLOCKS +
           block % JPEG_GROUP_BLOCKS;
}

/* Returns the number of values of a component of `blocks` blocks. */
DEVICE uint64_t jpeg_plane_values(uint64_t blocks)
{
    return (blocks + JPEG_GROUP_BLOCKS - 1) / JPEG_GROUP_BLOCKS * JPEG_GROUP;
}
