/*
 * canny.h - finds thin edges with hysteresis, like OpenCV's Canny with aperture 3 and the L1 norm.
 *
 * Source: J. Canny, A Computational Approach to Edge Detection, 1986. The definition of op_canny
 * (canny.c) has the exact rules. First, pixels are marked where the gradient has a peak above
 * `low`; those above `high` are strong. Then all marked pixels that are connected to a strong one
 * become edges.
 *
 * Connections are searched between blocks of 2 x 2 pixels, because marked pixels within a block
 * always touch. So both engines need only one word of work space per four pixels.
 */
#pragma once

#include "gpu/ops/sobel.h"

/* The largest |Gx| + |Gy|. The sum of both has weights of 6 in all for each sign. */
#define CANNY_LENGTH_MAX (6 * 255)

/* low <= high */
struct canny {
    int low, high;
    struct prologue prologue; /* makes gray of colours */
};

/* The direction of a gradient. It decides with which two neighbours a pixel is compared: those in
 * the row, in the column, from upper left to lower right, or from upper right to lower left. */
enum canny_sector { CANNY_ACROSS, CANNY_DOWN, CANNY_FALLING, CANNY_RISING };

/* A gradient is kept in 16 bits: the sector in the lowest two, and the length |Gx| + |Gy| in the
 * others. */
#define CANNY_SECTOR_BITS 2
#define CANNY_SECTOR_MASK 3

/* tan 22.5 degrees in 1/32768. tan 67.5 degrees is exactly 2 more. */
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

/* The marks that the output image has until the result, 0 or 255, is known. */
enum canny_mark { CANNY_NONE = 0, CANNY_WEAK = 1, CANNY_STRONG = 2, CANNY_EDGE = 255 };

/* Returns the mark of a pixel. before, after: the gradients of the two neighbours in its sector's
 * direction; `before` is above or to the left. */
PIXEL uint8_t canny_mark(int gradient, int before, int after, int low, int high)
{
    int length = canny_length(gradient);
    int straight = (gradient & CANNY_SECTOR_MASK) < CANNY_FALLING;
    int is_peak = (length > low) & (length > canny_length(before)) &
                  (length + straight > canny_length(after));
    return (uint8_t)(is_peak ? (length > high ? CANNY_STRONG : CANNY_WEAK) : CANNY_NONE);
}

/* Number of 2 x 2 blocks along a side. The last one is cut if the side is odd. */
PIXEL uint32_t canny_blocks(uint32_t side)
{
    return (side + 1) / 2;
}
