/*
 * png_reading.h - the table of `bench_png read`: ms per megapixel to decode PNGs of photographs.
 */
#pragma once

#include "tests/bench/png_library.h"

/* Reports on PNGs of one kind. */
typedef void reading_row(const char *name, struct picture *pictures, size_t count, unsigned rounds);

/* Calls the row for the photographs as RGB, RGBA and gray, and for the edges; as libpng writes them
 * by default, with all filters, and as the codec does. */
void reading_each(const struct set *photographs, const struct set *edges, unsigned rounds,
                  reading_row *row);

void reading_compare(const struct set *photographs, const struct set *edges, unsigned rounds);
