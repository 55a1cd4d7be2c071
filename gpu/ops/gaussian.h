/*
 * gaussian.h - Gaussian blur of 3 x 3 to 31 x 31 in 8.8 fixed point, and the unsharp mask.
 *
 * No intermediate value is rounded, so the order of the two sums does not matter.
 */
#pragma once

#include "gpu/ops/prologue.h"

#define GAUSSIAN_RADIUS_MAX 15

struct gaussian {
    int radius;
    /* No weight is 256: all others would be 0, and no pass is needed. */
    uint8_t weights[2 * GAUSSIAN_RADIUS_MAX + 1]; /* in 1/256; their sum is 256 */
    bool sharpen;
    int amount256; /* for the unsharp mask */
    struct prologue prologue;
};

/* s + amount (s - g), clamped to 0..255. */
PIXEL int unsharp_byte(int s, int g, int amount256)
{
    int value = s + ((amount256 * (s - g) + 128) >> 8);
    return value < 0 ? 0 : value > 255 ? 255 : value;
}
