/*
 * resample.h - the passes of resize: weighted means of pixels along one axis, and picking of the
 * nearest pixel.
 *
 * A pixel of the result is the sum of `taps` successive pixels of the source, times weights in
 * units of 1/2^22; the sum plus 1/2 is shifted right and clamped to a byte. The tables are
 * constants of the pass: int32_t first[outputs], the first source pixel of each column (or row) of
 * the result, and then int32_t weights[outputs][taps], padded with 0. resize.c computes them on the
 * host, in double. For RGBA, the first pass multiplies the colours by alpha, and the last pass
 * divides them by alpha, as Pillow's mode RGBa.
 */
#pragma once

#include "gpu/ops/pixel.h"
#include "gpu/plan/chain.h"

/* Fractional bits of weights. Of 32 bits, 8 are for the pixel, and two for weights below 0 and
 * above 1. */
#define RESAMPLE_BITS 22
/* `taps` is a multiple of this number, so that the CPU loops have no remainder. */
#define RESAMPLE_TAPS_STEP 8

/* On a device, the result of resample_x for a following resample_y is packed: it consists of words
 * with a byte of four rows, in the order that the tensor cores need. Row 4 g + q of words has rows
 * 16 g + 2 q, the next one, and those 8 rows later. In a row of words, each 8 pixels have 8 words
 * per channel. The width is rounded up to what a warp of resample_y computes. */
#define RESAMPLE_PACKED_ROWS   16
#define RESAMPLE_PACKED_PIXELS 8

/* Without padding: passes are compared by their params. */
struct resample {
    uint8_t packed;      /* resample_x: its result; resample_y: its source. The first member: passes
                            that share a launch must agree */
    uint8_t down;        /* resample_y: down the columns */
    uint8_t premultiply; /* this is the first pass of an RGBA image */
    uint8_t divide;      /* this is the last pass of an RGBA image */
    uint32_t taps;
    uint32_t reach; /* the most weights of a pixel of the result that are not padding */
    uint32_t skip;  /* resample_x: rows at the top of the source that are not needed */
    uint32_t ring;  /* resample_x on the CPU: see resample_strips.h; 0: without resample_y */
    uint32_t bits;  /* fractional bits of weights: RESAMPLE_BITS, or DEEP_BITS of deep.h */
    double scale; /* pixels of the source per pixel of the result */
};

/* The groups of 8 pixels that a warp of resample_y computes. */
#define RESAMPLE_PACKED_TILES(channels) ((channels) == 1 ? 3 : 1)

/* The bytes of a packed row of words, and of a whole packed result. */
static inline size_t resample_packed_stride(uint32_t width, uint32_t channels)
{
    size_t tiles = RESAMPLE_PACKED_TILES(channels), pixels = tiles * RESAMPLE_PACKED_PIXELS;
    return (width + pixels - 1) / pixels * pixels * channels * sizeof(uint32_t);
}

static inline size_t resample_packed_bytes(uint32_t width, uint32_t height, uint32_t channels)
{
    size_t groups = (height + RESAMPLE_PACKED_ROWS - 1) / RESAMPLE_PACKED_ROWS;
    return groups * (RESAMPLE_PACKED_ROWS / 4) * resample_packed_stride(width, channels);
}

PIXEL uint32_t resample_clip(int32_t sum)
{
    int32_t value = sum >> RESAMPLE_BITS;
    return (uint32_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* value * alpha / 255, rounded to nearest. A macro, so that loops can also use it with vectors. */
#define RESAMPLE_PREMULTIPLY(value, alpha)                                                         \
    (((value) * (alpha) + 128 + (((value) * (alpha) + 128) >> 8)) >> 8)

PIXEL uint32_t resample_premultiply(uint32_t value, uint32_t alpha)
{
    return RESAMPLE_PREMULTIPLY(value, alpha);
}

/* min(255, floor(255 value / alpha)); for alpha 0 and 255 the value itself. A division of floats is
 * exact enough: unless the quotient of two integers below 2^16 is an integer, it differs from the
 * next larger integer by more than half a unit in the last place. */
PIXEL uint32_t resample_divide(uint32_t value, uint32_t alpha)
{
    uint32_t whole = (uint32_t)((float)(255u * value) / (float)(alpha ? alpha : 255u));
    return whole > 255u ? 255u : whole;
}

extern const struct pass_type pass_resample_x, pass_resample_y;
/* Picks the nearest pixel. Its constants are int32_t x[to.width] and then int32_t y[to.height], the
 * column and the row of the source for each column and row of the result. */
extern const struct pass_type pass_pick;

/* Resizes the current image, which must have been decoded in full, to exactly this size with
 * lanczos3. Appends no pass if the image has this size. */
enum status resize_exact(struct chain *chain, uint32_t width, uint32_t height) MUST_CHECK;
/* As resize_exact, to the largest size with the image's aspect ratio whose sides are at most
 * `side`. Appends no pass if the image is not larger. */
enum status resize_within(struct chain *chain, uint32_t side) MUST_CHECK;

/* Crops the result of a resize: if the last passes resize rows and then columns of 8 bits, in a job
 * with one output, replaces them by passes that compute only the rectangle, to the same bytes. Sets
 * *status to the result of that. false: nothing was changed, and *status is not set. */
bool resize_crop(struct chain *chain, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                 enum status *status) MUST_CHECK;

/* Bytes of work space that pass_resample_x needs, without those of a pass that it leads. */
size_t resample_x_work_bytes(const struct resample *x, struct pass_shape from, uint32_t outputs);
