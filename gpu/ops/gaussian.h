/*
 * gaussian.h - Gaussian blur of 3 x 3 to 31 x 31 pixels in fixed point, and the unsharp mask.
 *
 * A pixel is a sum down the columns and a sum across the rows, with the same weights. Only the
 * result is rounded, so the two sums may be computed in any order.
 */
#pragma once

#include "gpu/ops/prologue.h"

#define GAUSSIAN_RADIUS_MAX 15

struct gaussian {
    int radius;
    /* In units of 1/256; their sum is 256. No weight is 256: all others would then be 0, and no
     * pass would be needed. */
    uint8_t weights[2 * GAUSSIAN_RADIUS_MAX + 1];
    bool sharpen;  /* the unsharp mask; otherwise the blur */
    int amount256; /* of the unsharp mask, in units of 1/256 */
    struct prologue prologue;
};

/* The unsharp mask s + amount (s - g), clamped to 0..255. s: the source; g: the blurred pixel. */
PIXEL int unsharp_byte(int s, int g, int amount256)
{
    int value = s + ((amount256 * (s - g) + 128) >> 8);
    return value < 0 ? 0 : value > 255 ? 255 : value;
}
