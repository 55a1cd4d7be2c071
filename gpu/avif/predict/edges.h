/*
 * edges.h - the samples around a block from which it is predicted (AV1 7.11.2).
 *
 * Above a block of side n are 2n samples, to its left as many, and one is in the corner. Samples
 * that are not decoded before the block repeat the last one that is.
 */
#pragma once

#include <string.h>

#include "gpu/avif/frame/encoder.h"

/* Room before the first sample: for the corner, for upsampling, and for loads of vectors. */
enum { EDGE_BEFORE = 48, EDGE_ROOM = EDGE_BEFORE + 2 * 64 + 48 };

struct avif_edges {
    uint8_t above_room[EDGE_ROOM],
        left_room[EDGE_ROOM]; /* from EDGE_BEFORE on; corners before it */
    bool has_above, has_left;
    int rest_x, rest_y; /* samples from the block's corner to the end of the frame's cells */
};

/* Which samples around a transform block are decoded before it. */
struct avif_neighbours {
    bool left, above, above_right, below_left;
};

/* (x, y): the transform block, in a block of size `block_size` at (block_x, block_y), which may be
 * the same, in samples of the plane. shift: 1 in chroma planes, else 0. */
DEVICE struct avif_neighbours avif_neighbours_of(const struct avif_bounds *tile, int shift,
                                                 int block_x, int block_y, int block_size, int x,
                                                 int y, int size)
{
    int side = 1 << size, mask = (SUPERBLOCK >> shift) - 1;
    uint32_t own = avif_morton((uint32_t)(block_x & mask) >> 2, (uint32_t)(block_y & mask) >> 2);
    struct avif_neighbours to = {x > tile->left >> shift, y > tile->top >> shift, false, false};
    int right = x + side, below = y + side;
    if (to.above) {
        if ((y & mask) == 0)
            to.above_right = right < tile->right >> shift;
        else if (y > block_y)
            to.above_right = right < block_x + (1 << block_size);
        else
            to.above_right =
                (right & mask) != 0 &&
                avif_morton((uint32_t)(right & mask) >> 2, (uint32_t)((y - 1) & mask) >> 2) < own;
    }
    if (to.left) {
        if ((x & mask) == 0)
            to.below_left = (y & mask) + side <= mask && below < tile->bottom >> shift;
        else
            to.below_left =
                x == block_x && (below & mask) != 0 &&
                avif_morton((uint32_t)((x - 1) & mask) >> 2, (uint32_t)(below & mask) >> 2) < own;
    }
    return to;
}

/* Copies `count` samples and repeats the last one up to `all`. */
DEVICE void avif_copy_edge(uint8_t *to, const uint8_t *from, size_t step, int count, int all)
{
    if (step == 1)
        memcpy(to, from, (size_t)count);
    else
        for (int i = 0; i < count; i++)
            to[i] = from[(size_t)i * step];
    memset(to + count, to[count - 1], (size_t)(all - count));
}

/* frame_right, frame_bottom: the ends of the frame's cells in the plane. */
DEVICE void avif_gather_edges(const struct avif_plane *plane, int x, int y, int size,
                              struct avif_neighbours decoded, int frame_right, int frame_bottom,
                              struct avif_edges *to)
{
    const uint8_t *at = plane->samples + (size_t)y * plane->stride + x;
    uint8_t *above = to->above_room + EDGE_BEFORE, *left = to->left_room + EDGE_BEFORE;
    int side = 1 << size, all = 2 * side;
    to->has_above = decoded.above;
    to->has_left = decoded.left;
    to->rest_x = frame_right - x;
    to->rest_y = frame_bottom - y;
    if (decoded.above)
        avif_copy_edge(above, at - plane->stride, 1,
                       avif_min(to->rest_x, decoded.above_right ? all : side), all);
    else
        memset(above, decoded.left ? at[-1] : 127, (size_t)all);
    if (decoded.left)
        avif_copy_edge(left, at - 1, plane->stride,
                       avif_min(to->rest_y, decoded.below_left ? all : side), all);
    else
        memset(left, decoded.above ? *(at - plane->stride) : 129, (size_t)all);
    uint8_t corner = decoded.above && decoded.left ? *(at - plane->stride - 1)
                     : decoded.above               ? *(at - plane->stride)
                     : decoded.left                ? at[-1]
                                                   : 128;
    above[-1] = left[-1] = corner;
}
