/*
 * border.h - maps coordinates outside an image to pixels inside, for neighbourhood operations.
 *
 * reflect101 mirrors without repeating the outermost pixel (OpenCV's default). If the
 * neighbourhood is larger than the image, it mirrors repeatedly. A side of one pixel reflects onto
 * itself.
 */
#ifndef GPUIMGD_GPU_OPS_BORDER_H
#define GPUIMGD_GPU_OPS_BORDER_H

#include "gpu/ops/pixel.h"

enum border { BORDER_REFLECT101, BORDER_REPLICATE, BORDER_ZERO };
/* The names in jobs. */
#define BORDER_WORDS ((const char *const[]){"reflect101", "replicate", "zero", NULL})

/* Maps any index to 0..size-1. Returns -1 if the pixel is zero. */
PIXEL int border_inside(int index, int size, enum border border)
{
    if (index >= 0 && index < size)
        return index;
    if (border == BORDER_ZERO)
        return -1;
    if (border == BORDER_REPLICATE || size == 1)
        return index < 0 ? 0 : size - 1;
    while (index < 0 || index >= size)
        index = index < 0 ? -index : 2 * size - 2 - index;
    return index;
}

#endif
