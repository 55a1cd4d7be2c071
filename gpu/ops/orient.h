/*
 * orient.h - the eight EXIF orientations: mirrors and turns of a whole image.
 *
 * With a source of w x h, the pixel of the result at (x, y) is the source's at
 *     2 (w-1-x, y)    3 (w-1-x, h-1-y)    4 (x, h-1-y)
 *     5 (y, x)        6 (y, h-1-x)        7 (w-1-y, h-1-x)    8 (w-1-y, x)
 * 5 to 8 exchange the sides (EXIF 2.32, tag 0x0112).
 */
#ifndef GPUIMGD_GPU_OPS_ORIENT_H
#define GPUIMGD_GPU_OPS_ORIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/ops/pixel.h"
#include "gpu/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The source's column is y of the result where `swap`, else x, and counts from the right where
 * flip_x; its row is the other coordinate, and counts from below where flip_y. */
struct orient {
    uint8_t swap, flip_x, flip_y;
};

extern const struct pass_type pass_orient;

/* Appends the pass, or nothing for orientation 1 (and for what EXIF does not define). */
void orient_step(struct chain *chain, int orientation);

pass_cuda orient_cuda;

#ifdef __cplusplus
}
#endif
#endif
