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

/* Encoders for inputs, malloc'd. JPEG takes 1 or 3 channels; 4 channels are written as CMYK
 * (inverted, as Adobe does). PNG takes 1, 3 or 4. */
struct raster_jpeg {
    int quality;
    bool progressive;
    bool rgb;         /* without the YCbCr transform (Adobe marker, transform 0) */
    int orientation;  /* 0: no EXIF */
    int sampling;     /* 1 = 4:4:4, 2 = 4:2:0 */
    const uint8_t *icc;
    size_t icc_bytes;
    int restart;      /* MCU rows between restart markers */
};
uint8_t *raster_to_jpeg(const struct raster *raster, const struct raster_jpeg *how,
                        size_t *length);
struct raster_png {
    bool interlaced;
    bool sixteen;     /* each byte v becomes v * 257, but for the low byte, which is varied */
    bool gray_alpha;  /* of RGBA: the first channel and alpha */
    bool palette;     /* of gray: 256 gray levels as a palette */
    const uint8_t *icc;
    size_t icc_bytes;
    int level;
};
uint8_t *raster_to_png(const struct raster *raster, const struct raster_png *how, size_t *length);

/* A picture-like test image: gradients, discs, text-like edges and noise; equal seeds give equal
 * pixels. Alpha, where there is one, runs over its whole range. */
struct raster raster_scene(uint32_t width, uint32_t height, uint32_t channels, uint32_t seed);

#endif
