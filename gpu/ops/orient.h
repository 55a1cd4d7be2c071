/*
 * orient.h - the eight EXIF orientations, which also implement transpose, rotate and flip.
 *
 * The table gives, for each EXIF orientation, the source pixel of the result pixel (x, y). The
 * source has w x h pixels. Orientation 1 copies (x, y).
 *     2 (w-1-x, y)    3 (w-1-x, h-1-y)    4 (x, h-1-y)
 *     5 (y, x)        6 (y, h-1-x)        7 (w-1-y, h-1-x)    8 (w-1-y, x)
 * Orientations 5 to 8 swap the axes (EXIF 2.32, tag 0x0112).
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

/* Maps a result pixel (x, y) to a source pixel. Without `swap`, the source column is x and the row
 * is y; with `swap`, the column is y and the row is x. flip_x counts source columns from the right.
 * flip_y counts source rows from the bottom. */
struct orient {
    uint8_t swap, flip_x, flip_y;
};

extern const struct pass_type pass_orient;

/* step_orient (gpu/plan/steps.h) appends an orient pass. It fuses the pass with a preceding orient
 * pass. If the two cancel each other, it removes both. */

/* Crops the current image of the chain to the rectangle whose top left pixel is (x, y). */
void orient_crop(struct chain *chain, uint32_t x, uint32_t y, uint32_t width, uint32_t height);

#endif
