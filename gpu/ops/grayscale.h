/*
 * grayscale.h - converts colour to gray: Y = (r R + g G + b B + 32768) >> 16, weights in 1/65536.
 *
 * The default weights 19595, 38470 and 7471 are the 0.299, 0.587 and 0.114 of ITU-R BT.601-7,
 * rounded as in libjpeg's jccolor.c. RGBA is first flattened over a background colour.
 */
#pragma once

#include "gpu/ops/pixel.h"
#include "gpu/plan/pass.h"

/* Flattens RGBA over an opaque background: (c a + background (255 - a)) / 255, rounded half up. */
struct flatten {
    uint8_t background[3];
};

/* x / 255 is (x + 1 + (x >> 8)) >> 8 for all x < 65,535; x here is at most 65,152. */
PIXEL uint32_t flatten_byte(uint32_t value, uint32_t alpha, uint32_t background)
{
    uint32_t x = value * alpha + background * (255u - alpha) + 127u;
    return (x + 1u + (x >> 8)) >> 8;
}

/* Weights are stored in 16 bits, so that one instruction can multiply two of them. Only the weight
 * 65536 does not fit; the other two are then 0. It is stored as GRAYSCALE_WHOLE, which gives the
 * same result: (65535 v + 32768) >> 16 = v = (65536 v + 32768) >> 16 for every byte v. */
#define GRAYSCALE_WHOLE 65535

struct grayscale {
    uint16_t r, g, b;
    uint8_t background[3];
    uint8_t zero; /* no padding: pass.h */
};

PIXEL uint32_t grayscale_rgb(uint32_t r, uint32_t g, uint32_t b, uint32_t weight_r,
                             uint32_t weight_g, uint32_t weight_b)
{
    return (weight_r * r + weight_g * g + weight_b * b + 32768u) >> 16;
}

extern const struct pass_type pass_grayscale;

/* Returns the default weights, with this background. */
struct grayscale grayscale_default(const uint8_t *background);
/* Converts one row of 1, 3 or 4 channels on the CPU. The rows must not overlap. */
void grayscale_row(const uint8_t *from, uint8_t *to, uint32_t width, uint32_t channels,
                   const struct grayscale *gray);
