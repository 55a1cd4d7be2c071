/*
 * png_curve.h - time and size of a set of pictures with every filter, strategy and level.
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
    STRATEGY_LIBDEFLATE, /* none of zlib's: rows as libpng filters them, without the time of that */
#endif
    STRATEGIES
};
#define LEVELS 10

struct point {
    double seconds; /* of CPU time a megapixel */
    double bytes;   /* a pixel */
};

struct curve {
    const struct set *set;
    struct point points[FILTERS][STRATEGIES][LEVELS];
};

void curve_measure(struct curve *curve, const struct set *set);
void curve_print(const struct curve *curve);
/* As png_plot.py reads them. */
void curve_write_points(const struct curve *curve, FILE *file);

#endif
