/*
 * pad.h - puts a border of one colour around an image, and converts gray to RGB, or either to RGBA,
 * if the colour needs it.
 *
 * The operations rotate and resize use it, too.
 */
#pragma once

#include "gpu/ops/gravity.h"
#include "gpu/ops/pixel.h"
#include "gpu/plan/chain.h"

struct op_color;

struct pad {
    uint32_t left, top; /* where the source is in the result */
    uint8_t fill[4];    /* a pixel of the border; with one channel only fill[0] is used */
};

/* A colour as a pixel of an image with this many channels. */
struct pad_fill {
    uint8_t pixel[4];
    uint32_t channels;
};

/* Returns the border's pixel for the current image. If the job gives no colour, it has the job's
 * background. It is RGBA if the image or the colour has alpha; otherwise gray if both are gray;
 * otherwise RGB. */
struct pad_fill pad_fill_of(const struct chain *chain, const struct op_color *color);
/* Appends a pass that puts the current image at (left, top) of a larger result of width x height
 * pixels. Appends none if nothing changes. image_too_large: the limits forbid the result. */
enum status pad_around(struct chain *chain, uint64_t left, uint64_t top, uint64_t width,
                       uint64_t height, const struct pad_fill *fill) MUST_CHECK;
/* Converts the current image to the channels of the fill. */
void pad_convert(struct chain *chain, const struct pad_fill *fill);
