/*
 * canny.h - thin edges with hysteresis, as OpenCV's Canny of aperture 3 with the L1 norm.
 *
 * J. Canny, A Computational Approach to Edge Detection, 1986. Of each pixel Gx and Gy are taken
 * as in sobel.h, outside being the nearest pixel inside, and m = |Gx| + |Gy|, 0 outside. A pixel
 * with m > low is marked where m is a peak across the edge: greater than the neighbour before it
 * and, across and down, not less, else greater than the one behind it. Which two neighbours these
 * are is the gradient's sector. Marked pixels with m > high are strong. What remains are the marked
 * pixels that are connected, by sides or corners, to a strong one through marked ones.
 *
 * Connections are found between blocks of 2 x 2 pixels: those that are marked in a block are
 * neighbours anyway. So both engines need a word of work space for four pixels.
 */
#ifndef GPUIMGD_GPU_OPS_CANNY_H
#define GPUIMGD_GPU_OPS_CANNY_H

#include <stdint.h>

#include "gpu/ops/prologue.h"
#include "gpu/ops/pixel.h"
#include "gpu/ops/sobel.h"
#include "gpu/plan/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The greatest |Gx| + |Gy|: the weights of both add up to 6 where they have one sign. */
#define CANNY_LENGTH_MAX (6 * 255)

/* low <= high */
struct canny {
    int low, high;
    struct prologue prologue; /* gray, where it is made of colours */
};

/* Along which line the gradient's neighbours lie: in the row, in the column, from above left to
 * below right, from above right to below left. */
enum canny_sector { CANNY_ACROSS, CANNY_DOWN, CANNY_FALLING, CANNY_RISING };

/* A gradient in 16 bits: its length, and its sector in the lowest two. */
#define CANNY_SECTOR_BITS 2
#define CANNY_SECTOR_MASK 3

/* tan 22.5 degrees in 1/32768; tan 67.5 degrees is 2 more, exactly. */
#define CANNY_TAN_22 13573

PIXEL uint16_t canny_gradient(int gx, int gy)
{
    int x = gx < 0 ? -gx : gx, y = gy < 0 ? -gy : gy;
    int tan_22 = x * CANNY_TAN_22, tan_67 = tan_22 + (x << 16), height = y << 15;
    int sector = (gx ^ gy) < 0 ? CANNY_RISING : CANNY_FALLING;
    sector = height > tan_67 ? CANNY_DOWN : sector;
    sector = height < tan_22 ? CANNY_ACROSS : sector;
    return (uint16_t)((x + y) << CANNY_SECTOR_BITS | sector);
}

PIXEL int canny_length(int gradient)
{
    return gradient >> CANNY_SECTOR_BITS;
}

/* What a pixel is marked with until it is settled; then it is 0 or 255. */
enum canny_mark { CANNY_NONE = 0, CANNY_WEAK = 1, CANNY_STRONG = 2, CANNY_EDGE = 255 };

/* The mark of a gradient between those of its sector's two neighbours: `before` in the row above,
 * or to the left, `after` in the row below, or to the right. */
PIXEL uint8_t canny_mark(int gradient, int before, int after, int low, int high)
{
    int length = canny_length(gradient);
    int straight = (gradient & CANNY_SECTOR_MASK) < CANNY_FALLING;
    int is_peak = (length > low) & (length > canny_length(before)) &
                  (length + straight > canny_length(after));
    return (uint8_t)(is_peak ? (length > high ? CANNY_STRONG : CANNY_WEAK) : CANNY_NONE);
}

/* Blocks of 2 x 2 along a side; at an odd side's end they are cut. */
PIXEL uint32_t canny_blocks(uint32_t side)
{
    return (side + 1) / 2;
}

pass_cuda canny_cuda;

#ifdef __cplusplus
}
#endif
#endif
