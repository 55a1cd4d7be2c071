/*
 * unfilter.h - turns filtered rows of a PNG into pixels (PNG specification, section 9).
 *
 * Sub, Average and Paeth depend on the pixel before, so a row is a chain of dependent steps. SSE4.1
 * keeps the chain short and does the bytes of a pixel together. AVX2 does eight rows together.
 * Other processors use plain C. All give the same pixels.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Up to this many bytes after a filtered row may be read. */
#define UNFILTER_SLACK 16

enum unfilter { FILTER_NONE, FILTER_SUB, FILTER_UP, FILTER_AVERAGE, FILTER_PAETH, FILTERS };

/* The rows that unfilter_rows does together, if it gets as many. */
#define UNFILTER_ROWS 8

/* Unfilters `count` rows. filtered: the rows with their filters, one after the other; all filters
 * are below FILTERS. above: the pixels of the row above, zeros above the first row. pixel_bytes: 1,
 * 3 or 4. Writes only the bytes of pixels. */
void unfilter_rows(const uint8_t *filtered, const uint8_t *above, uint8_t *rows, size_t stride,
                   size_t row_bytes, unsigned pixel_bytes, size_t count);

/* Unfilters one row. filtered: the row without its first byte, the filter. */
void unfilter_row(enum unfilter filter, const uint8_t *filtered, const uint8_t *above, uint8_t *row,
                  size_t row_bytes, unsigned pixel_bytes);

/* The same in plain C. */
void unfilter_row_plain(enum unfilter filter, const uint8_t *filtered, const uint8_t *above,
                        uint8_t *row, size_t row_bytes, unsigned pixel_bytes);

#if defined(__x86_64__)
/* Unfilters UNFILTER_ROWS rows of gray. Needs AVX2. */
void unfilter_gray_rows(const uint8_t *filtered, const uint8_t *above, uint8_t *rows, size_t stride,
                        size_t row_bytes);
#endif
