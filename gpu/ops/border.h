/*
 * border.h - what stands for the pixels outside an image, for operations on neighbourhoods.
 *
 * reflect101 mirrors without repeating the outermost pixel (OpenCV's default), again and again
 * where the neighbourhood is larger than the image; a side of one pixel reflects onto itself.
 */
#ifndef GPUIMGD_GPU_OPS_BORDER_H
#define GPUIMGD_GPU_OPS_BORDER_H

#include "gpu/ops/pixel.h"

enum border { BORDER_REFLECT101, BORDER_REPLICATE, BORDER_ZERO };
/* As jobs name them. */
#define BORDER_WORDS ((const char *const[]){"reflect101", "replicate", "zero", NULL})

/* The index inside 0..size-1 that stands for any index; -1: a zero does. */
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
