/*
 * png_curve.h - measures time and size of a set of PNGs with every filter, strategy and level.
 */
#ifndef GPUIMGD_TESTS_BENCH_PNG_CURVE_H
#define GPUIMGD_TESTS_BENCH_PNG_CURVE_H

#include <stdio.h>

#include "tests/bench/png_picture.h"

#define FILTERS 6
enum curve_strategy {
    STRATEGY_DEFAULT,
    STRATEGY_FILTERED,
    STRATEGY_HUFFMAN,
    STRATEGY_RLE,
#ifdef HAVE_LIBDEFLATE
    STRATEGY_LIBDEFLATE, /* libdeflate on rows that libpng filtered; filtering is not timed */
#endif
    STRATEGIES
};
#define LEVELS 10

struct point {
    double seconds; /* CPU time per megapixel */
    double bytes;   /* per pixel */
};

struct curve {
    const struct set *set;
    struct point points[FILTERS][STRATEGIES][LEVELS];
};

void curve_measure(struct curve *curve, const struct set *set);
void curve_print(const struct curve *curve);
/* Writes the points in the format that png_plot.py reads. */
void curve_write_points(const struct curve *curve, FILE *file);

#endif
