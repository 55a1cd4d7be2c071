/*
 * axis.h - how the columns, or the rows, of an image are resized: the pixels of the source for each
 * pixel of the result, and their weights.
 *
 * The weights are those of Pillow's Image.resize, computed in the same order (Resample.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum resize_filter { FILTER_NEAREST, FILTER_BOX, FILTER_BILINEAR, FILTER_BICUBIC, FILTER_LANCZOS3 };

/* Without padding: passes are compared by their params. */
struct axis {
    uint32_t outputs;        /* pixels of the result */
    uint32_t at, total;      /* the result is a part of `total` pixels, from pixel `at` on */
    uint32_t origin, inputs; /* the first pixel of the source that may be read, and their number */
    uint32_t cut, used;      /* the pass reads `used` of these inputs, from number `cut` on: all,
                                but for axis_skip_unused */
    int filter;
    double start,
        end; /* the part of the source to resize to `total` pixels, relative to `origin` */
};

/* Pixels of the source per pixel of the result. */
double axis_scale(const struct axis *axis);
/* Whether `total` pixels are copied from as many. */
bool axis_is_same(const struct axis *axis);
/* The most weights that a pixel of the result has. */
uint32_t axis_reach(const struct axis *axis);

/* Reduces the result to `outputs` of its pixels, from `at` on. Their weights stay the same. */
void axis_crop(struct axis *axis, uint32_t at, uint32_t outputs);
/* Sets cut and used: the caller provides only the `used` pixels of the source. */
void axis_skip_unused(struct axis *axis);

/* Writes the table of a pass (resample.h), which must be zeroed before. bits: fractional bits of
 * weights. If pixels are cut, the table counts from the first one that is provided. */
void axis_fill(const struct axis *axis, uint32_t taps, uint32_t bits, int32_t *table);
/* Writes the nearest pixel of the source for each pixel of the result, which must be whole. */
void axis_pick(const struct axis *axis, int32_t *table);
