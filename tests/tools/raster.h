/*
 * raster.h - pixels as a test sees them: tight rows, read and written by libjpeg and libpng alone.
 *
 * Nothing here uses codecs/ or gpu/, so that it can judge them. A raster with pixels == NULL is
 * one that could not be read.
 */
#ifndef GPUIMGD_TESTS_TOOLS_RASTER_H
#define GPUIMGD_TESTS_TOOLS_RASTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct raster {
    uint32_t width, height, channels; /* 1, 3 or 4 */
    uint8_t *pixels;                  /* width * channels bytes a row, malloc'd */
    size_t icc_bytes;                 /* of the profile in the file, 0 = none */
    bool png;                         /* which of the two formats it was */
    bool progressive;                 /* or interlaced */
};

enum raster_as {
    RASTER_COLOUR, /* as decoded: gray stays gray, CMYK becomes RGB, gray + alpha RGBA */
    RASTER_LUMA    /* a YCbCr JPEG's Y channel; else as RASTER_COLOUR */
};

struct raster raster_make(uint32_t width, uint32_t height, uint32_t channels);
struct raster raster_copy(const struct raster *raster);
void raster_clear(struct raster *raster);

struct raster raster_decode(const uint8_t *bytes, size_t length, enum raster_as as);
struct raster raster_load(const char *path, enum raster_as as);

uint8_t *raster_at(const struct raster *raster, uint32_t x, uint32_t y);

/* Number of bytes that differ; SIZE_MAX when the shapes do. `limit` is how far two bytes may be
 * apart and still count as equal. The first difference is described in `where`. */
size_t raster_differ(const struct raster *a, const struct raster *b, int limit, char *where,
                     size_t where_size);

/* A baseline JPEG of 1 or 3 channels with libjpeg's defaults, malloc'd. */
uint8_t *raster_to_jpeg(const struct raster *raster, int quality, size_t *length);

#endif
