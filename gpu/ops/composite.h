/*
 * composite.h - lays an overlay over an image, the base. The definition of op_composite
 * (composite.c) has the geometry and the formulas.
 *
 * The visible part of the overlay is in the constants of the pass: RGBA, four bytes per pixel, with
 * the opacity already applied, and rows without padding. If the base and the overlay are gray, only
 * R and alpha are read. If only the base is gray, the result is RGB.
 */
#pragma once

#include "gpu/ops/pixel.h"
#include "gpu/plan/pass.h"

struct chain;

#define COMPOSITE_OPACITY_BITS 16
#define COMPOSITE_PIXEL 4 /* bytes of a pixel of the overlay */

/* Sizes are in pixels. The stored part is repeated over the whole region. */
struct composite {
    uint32_t left, top, width, height; /* the region of the base that the overlay covers */
    uint32_t across, down;             /* size of the stored part */
};

/* Where an overlay is laid, as the parameters of composite say. */
struct composite_spot {
    int gravity; /* enum gravity */
    int x, y;
    double opacity;
    bool tile;
};

/* The gravity of an operation with the parameters gravity, x and y: if only x or y is given,
 * northwest. */
int composite_gravity(const struct op_item *item, int gravity);
/* Appends the pass that lays the overlay over the current image, unless it is not visible. */
enum status composite_lay(const struct composite_spot *spot, const struct plan_overlay *overlay,
                          struct chain *chain);

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

/* Blends a byte of an opaque base with a byte of the overlay: Pillow's BLEND in Paste.c. */
PIXEL uint8_t composite_blend(uint32_t under, uint32_t over, uint32_t alpha)
{
    return (uint8_t)composite_div255(under * (255u - alpha) + over * alpha);
}

/* For a base with alpha: the weights of the overlay and of the base, in units of 1/32640 (255 <<
 * 7), and the resulting alpha. As in Pillow's AlphaComposite.c. */
struct composite_weights {
    uint32_t over, under, alpha;
};

/* over, under: the alphas of the overlay, above 0, and of the base. All products are below 2^31. */
PIXEL struct composite_weights composite_weigh(uint32_t over, uint32_t under)
{
    struct composite_weights weights;
    uint32_t whole = over * 255u + under * (255u - over);
    weights.over = over * 255u * 255u * 128u / whole;
    weights.under = 255u * 128u - weights.over;
    weights.alpha = composite_div255(whole);
    return weights;
}

/* A byte of the result, from those of the overlay and of the base. */
PIXEL uint8_t composite_mix(struct composite_weights weights, uint32_t over, uint32_t under)
{
    uint32_t sum = over * weights.over + under * weights.under + (128u << 7);
    return (uint8_t)(((sum >> 8) + sum) >> 8 >> 7);
}

/* Computes a pixel. channels: of the base; to_channels: of the result. Callers pass compile-time
 * constants, for speed. */
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
