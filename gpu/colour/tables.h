/*
 * tables.h - the tables of a colour conversion, as the host and kernels read them.
 *
 * They are copied into the constants of a pass, so that they have no pointers.
 */
#pragma once

#include <stdint.h>

enum colour_kind {
    COLOUR_SAME,   /* the profile is that of sRGB: pixels stay as they are */
    COLOUR_GRAY,   /* a profile for gray: a table of 256 bytes */
    COLOUR_MATRIX, /* struct colour_matrix */
    COLOUR_CUBE,   /* struct colour_cube */
    COLOUR_INKS,   /* struct colour_inks */
    COLOUR_PRODUCT /* CMYK without a profile: no table */
};

/* Linear light is 0 to COLOUR_ONE. At the steep start of sRGB's curve, a unit is a fifth of a
 * step of the result. */
#define COLOUR_ONE 16384
#define COLOUR_ONE_BITS 14
/* The sum of the absolute values of a row, in 1. It keeps the sum of a row within 32 bits. */
#define COLOUR_ROW_MAX 7.99

struct colour_matrix {
    int32_t rows[3][4];               /* in 1/COLOUR_ONE; the last one is added, in 1/COLOUR_ONE
                                         of the product's unit, with 1/2 for rounding */
    uint16_t linear[3][256];          /* linear light of R, G and B, 0 to COLOUR_ONE */
    uint8_t encoded[COLOUR_ONE + 32]; /* sRGB for linear light */
};

/* A position on an axis of a grid: the index of a node, shifted left by 16, plus the distance
 * from it to the next node, 0 to COLOUR_STEP. */
#define COLOUR_STEP 32768
#define COLOUR_STEP_BITS 15
#define COLOUR_CUBE_SIDE 33
#define COLOUR_INKS_SIDE 17
#define COLOUR_CUBE_NODES (COLOUR_CUBE_SIDE * COLOUR_CUBE_SIDE * COLOUR_CUBE_SIDE)
#define COLOUR_INKS_NODES                                                                          \
    (COLOUR_INKS_SIDE * COLOUR_INKS_SIDE * COLOUR_INKS_SIDE * COLOUR_INKS_SIDE)

/* R, G and B of sRGB in 1/65535, and padding. */
#ifdef __cplusplus
struct alignas(8) colour_node {
#else
struct __attribute__((aligned(8))) colour_node {
#endif
    uint16_t rgb[4];
};

/* The last axis varies fastest. */
struct colour_cube {
    uint32_t positions[3][256]; /* of R, G and B */
    struct colour_node nodes[COLOUR_CUBE_NODES];
};

struct colour_inks {
    uint32_t positions[4][256]; /* of C, M, Y and K as a JPEG stores them: 255 is no ink */
    struct colour_node nodes[COLOUR_INKS_NODES];
};
