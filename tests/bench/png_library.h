/*
 * png_library.h - encodes and decodes PNG with the codec of codecs/, libpng and libspng, and
 * deflates filtered rows with zlib and libdeflate; and the images that bench_png does this with.
 *
 * Everything runs in memory, on one thread, with reused buffers. An error ends the program.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"
#include "tests/fixtures/raster.h"

#define PICTURES_MAX 16
#define PICTURE_WIDTH_MAX 1600
#define PICTURE_HEIGHT_MAX 1200

struct bytes {
    uint8_t *at;
    size_t used, capacity;
};

struct picture {
    struct raster raster;
    struct image image;      /* the same pixels with the stride of a job's image */
    struct bytes png;        /* encoded by the codec with default settings */
    struct bytes filtered;   /* the filtered rows of png */
    struct bytes compressed; /* the contents of all IDAT chunks of png */
};

enum set_name { SET_PHOTOGRAPHS, SET_EDGES, SETS };
struct set {
    const char *name;
    struct picture pictures[PICTURES_MAX];
    size_t count;
    double raw_bytes, pixels;
};


/* Must be called before the functions below. */
void library_open(void);

/* The values are those of zlib and of the library that encodes. */
struct png_settings {
    int level;    /* -1: the daemon's default */
    int filters;
    int strategy; /* -1: libpng chooses */
};

/* The next call overwrites the returned bytes. */
typedef const struct bytes *png_encode(const struct picture *picture,
                                       const struct png_settings *settings);
typedef void png_decode(const struct picture *picture);
png_encode encode_codec, encode_libpng;
/* With the own encoder, without special instructions. The settings are not used. */
png_encode encode_plain;
png_decode decode_codec, decode_libpng;
#ifdef HAVE_SPNG
png_encode encode_spng;
png_decode decode_spng;
#endif

/* Deflates the filtered rows of the image, and inflates its IDAT chunks. */
png_encode encode_zlib;
png_decode decode_zlib;
#ifdef HAVE_LIBDEFLATE
png_encode encode_libdeflate;
png_decode decode_libdeflate;
#endif

/* Fills `filtered` and `compressed` from the IDAT chunks of `png`. The caller frees both. */
void picture_take_apart(struct picture *picture);

/* Fills the sets from the first `count` YCbCr JPEGs below the folder that are 640 pixels wide or
 * more. One set has their centres, of at most PICTURE_WIDTH_MAX / part x PICTURE_HEIGHT_MAX / part
 * pixels; the other has the edges (sobel) of the centres. */
void sets_load(struct set sets[SETS], const char *folder, size_t count, uint32_t part);
