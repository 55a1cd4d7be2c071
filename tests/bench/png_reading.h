/*
 * png_reading.h - the table of `bench_png read`: ms per megapixel to decode PNGs of photographs.
 */
#pragma once

#include "tests/bench/png_library.h"

/* The photographs as RGB, RGBA and gray, and the edges; as libpng writes them by default, with all
 * filters, and as the codec does. */
void reading_compare(const struct set *photographs, const struct set *edges, unsigned rounds);
