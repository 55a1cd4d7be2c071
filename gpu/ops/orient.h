/*
 * orient.h - the eight EXIF orientations, which also implement transpose, rotate and flip.
 *
 * For a source of w x h, the pixel (x, y) of the result is this pixel of the source:
 *     2 (w-1-x, y)    3 (w-1-x, h-1-y)    4 (x, h-1-y)
 *     5 (y, x)        6 (y, h-1-x)        7 (w-1-y, h-1-x)    8 (w-1-y, x)
 * 5 to 8 swap the axes (EXIF 2.32, tag 0x0112).
 */
#ifndef GPUIMGD_GPU_OPS_ORIENT_H
#define GPUIMGD_GPU_OPS_ORIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/ops/pixel.h"
#include "gpu/plan/chain.h"

enum orientation {
    ORIENT_NONE = 1,
    ORIENT_MIRRORED,
    ORIENT_TURNED_180,
    ORIENT_UPSIDE_DOWN,
    ORIENT_TRANSPOSED,
    ORIENT_TURNED_90, /* clockwise */
    ORIENT_TRANSVERSED,
    ORIENT_TURNED_270,
};

/* The source's column is y of the result if `swap`, else x; it is counted from the right if flip_x.
 * The source's row is the other coordinate, counted from the bottom if flip_y. */
struct orient {
    uint8_t swap, flip_x, flip_y;
};

extern const struct pass_type pass_orient;

/* step_orient (gpu/plan/steps.h) appends the pass. Adjacent orient passes are fused into one, or
 * into none. */

/* Crops the current image of the chain to the rectangle with this corner and size. */
void orient_crop(struct chain *chain, uint32_t x, uint32_t y, uint32_t width, uint32_t height);

#endif
