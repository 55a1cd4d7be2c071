/*
 * png_picture.h - loads the images of bench_png: the centres of photographs, and their edges.
 *
 * An error ends the program.
 */
#ifndef GPUIMGD_TESTS_BENCH_PNG_PICTURE_H
#define GPUIMGD_TESTS_BENCH_PNG_PICTURE_H

#include "codecs/image.h"
#include "tests/bench/png_library.h"
#include "tests/fixtures/raster.h"

#define PICTURES_MAX 16
#define PICTURE_WIDTH_MAX 1600
#define PICTURE_HEIGHT_MAX 1200

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
    double raw_bytes;
};

size_t picture_row_bytes(const struct picture *picture);
/* Fills `filtered` and `compressed` from the IDAT chunks of `png`. The caller frees both. */
void picture_take_apart(struct picture *picture);

/* Fills the sets from the first `count` YCbCr JPEGs below the folder that are 640 pixels wide or
 * more. One set has their centres, of at most PICTURE_WIDTH_MAX / part x PICTURE_HEIGHT_MAX / part
 * pixels; the other has the edges (sobel) of the centres. */
void sets_load(struct set sets[SETS], const char *folder, size_t count, uint32_t part);

#endif
