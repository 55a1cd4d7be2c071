/*
 * png_plot.h - the curves as an SVG, beside one another.
 */
#ifndef GPUIMGD_TESTS_BENCH_PNG_PLOT_H
#define GPUIMGD_TESTS_BENCH_PNG_PLOT_H

#include "tests/bench/png_curve.h"

/* What fails ends the program. */
void plot_write(const struct curve curves[SETS], const char *path);

#endif
