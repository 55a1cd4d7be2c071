/*
 * pad.h - a border around an image in one colour; also converts gray to RGB, and both to RGBA.
 *
 * rotate and resize use it, too: their results then have the channels that their colour needs.
 */
#pragma once

#include "gpu/ops/gravity.h"
#include "gpu/ops/pixel.h"
#include "gpu/plan/chain.h"

struct op_color;

struct pad {
    uint32_t left, top; /* the place of the source in the result */
    uint8_t fill[4];    /* a pixel of the result; with one channel fill[0] */
};

/* A colour as a pixel of an image with this many channels. */
struct pad_fill {
    uint8_t pixel[4];
    uint32_t channels;
};

/* The colour on the chain's current image; if the job gives none, the job's background. RGBA if the
 * image or the colour has alpha; else gray if both are gray; else RGB. */
struct pad_fill pad_fill_of(const struct chain *chain, const struct op_color *color);
/* Puts the current image at (left, top) of a width x height result, which contains it. Appends no
 * pass if nothing changes. image_too_large if the result is not allowed. */
enum status pad_around(struct chain *chain, uint64_t left, uint64_t top, uint64_t width,
                       uint64_t height, const struct pad_fill *fill) MUST_CHECK;
/* Converts the current image to the channels of the fill. */
void pad_convert(struct chain *chain, const struct pad_fill *fill);
