/*
 * png_picture.h - what PNG is measured with: the middles of photographs, and their edges.
 *
 * What fails ends the program.
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
    struct image image;      /* the same pixels as a job has them */
    struct bytes png;        /* as the codec writes it by default */
    struct bytes filtered;   /* its rows, as they are compressed */
    struct bytes compressed; /* its IDATs together */
};

/* One set is the photographs, the other their edges. */
enum set_name { SET_PHOTOGRAPHS, SET_EDGES, SETS };
struct set {
    const char *name;
    struct picture pictures[PICTURES_MAX];
    size_t count;
    double raw_bytes;
};

size_t picture_row_bytes(const struct picture *picture);
/* Makes `filtered` and `compressed`, which are the caller's to free, of the IDATs of `png`. */
void picture_take_apart(struct picture *picture);

/* Fills the sets from the first `count` YCbCr JPEGs below the folder that are 640 pixels wide or
 * more: their middles, of at most PICTURE_WIDTH_MAX x PICTURE_HEIGHT_MAX / `part` each, and the
 * edges (sobel) of these. */
void sets_load(struct set sets[SETS], const char *folder, size_t count, uint32_t part);

#endif
