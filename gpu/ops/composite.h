/*
 * composite.h - lays an overlay over an image. op_composite has the geometry and the formulas.
 *
 * The overlay's visible part is in the constants of the pass: RGBA, four bytes per pixel, with the
 * opacity already applied and rows without padding. A gray base reads only R and alpha of it,
 * unless the overlay has colours: the result is then RGB.
 */
#pragma once

#include "gpu/ops/pixel.h"
#include "gpu/plan/pass.h"

#define COMPOSITE_OPACITY_BITS 16
#define COMPOSITE_PIXEL 4 /* bytes of a pixel of the overlay */

/* Rectangles are in pixels. The stored part repeats in both directions within the region. */
struct composite {
    uint32_t left, top, width, height; /* the region of the base that the overlay covers */
    uint32_t across, down;             /* size of the stored part */
};

/* opacity: 0 to 65536 */
PIXEL uint32_t composite_alpha(uint32_t alpha, uint32_t opacity)
{
    return (alpha * opacity + (1u << (COMPOSITE_OPACITY_BITS - 1))) >> COMPOSITE_OPACITY_BITS;
}

/* x / 255, rounded half up, for 0 <= x <= 65025: Pillow's DIV255. */
PIXEL uint32_t composite_div255(uint32_t x)
{
    x += 128u;
    return ((x >> 8) + x) >> 8;
}

/* A byte of an opaque base under a byte of the overlay: Pillow's BLEND in Paste.c. */
PIXEL uint8_t composite_blend(uint32_t under, uint32_t over, uint32_t alpha)
{
    return (uint8_t)composite_div255(under * (255u - alpha) + over * alpha);
}

/* Weights of a pixel of the overlay and of the base, in 1/32640 (255 << 7), and the resulting
 * alpha: Pillow's AlphaComposite.c. */
struct composite_weights {
    uint32_t over, under, alpha;
};

/* over: alpha of the overlay, above 0. The products stay below 2^31. */
PIXEL struct composite_weights composite_weigh(uint32_t over, uint32_t under)
{
    struct composite_weights weights;
    uint32_t whole = over * 255u + under * (255u - over);
    weights.over = over * 255u * 255u * 128u / whole;
    weights.under = 255u * 128u - weights.over;
    weights.alpha = composite_div255(whole);
    return weights;
}

PIXEL uint8_t composite_mix(struct composite_weights weights, uint32_t over, uint32_t under)
{
    uint32_t sum = over * weights.over + under * weights.under + (128u << 7);
    return (uint8_t)(((sum >> 8) + sum) >> 8 >> 7);
}

/* One pixel. channels: of the base; to_channels: of the result, which are more for gray under a
 * coloured overlay. Both are compile-time constants in each caller. */
PIXEL void composite_pixel(const uint8_t *under, const uint8_t *over, uint8_t *to,
                           uint32_t channels, uint32_t to_channels)
{
    uint32_t alpha = over[3];
    if (channels != 4) {
        for (uint32_t c = 0; c < to_channels; c++)
            to[c] = composite_blend(under[channels == 1 ? 0 : c], over[c], alpha);
        return;
    }
    if (alpha == 0) {
        for (uint32_t c = 0; c < 4; c++)
            to[c] = under[c];
        return;
    }
    struct composite_weights weights = composite_weigh(alpha, under[3]);
    for (uint32_t c = 0; c < 3; c++)
        to[c] = composite_mix(weights, over[c], under[c]);
    to[3] = (uint8_t)weights.alpha;
}
