/*
 * tables.h - the tables that convert colours to sRGB, as the host and the kernels read them.
 *
 * They contain no pointers, because a pass copies them to the device with its other constants.
 */
#pragma once

#include <stdint.h>

/* How pixels are converted, and which tables that needs. */
enum colour_kind {
    COLOUR_SAME,   /* the pixels are sRGB already; no table */
    COLOUR_GRAY,   /* from gray: colour.gray */
    COLOUR_MATRIX, /* from RGB, with curves and a matrix: struct colour_matrix */
    COLOUR_CUBE,   /* from RGB, by interpolation in a grid: struct colour_cube */
    COLOUR_INKS,   /* from CMYK, by interpolation in a grid: struct colour_inks */
    COLOUR_PRODUCT /* from CMYK without a profile: products with K; no table */
};

/* Linear light is an integer from 0 to COLOUR_ONE. Where sRGB's curve is steepest, near black, one
 * unit changes the resulting byte by a fifth of a step. */
#define COLOUR_ONE 16384
#define COLOUR_ONE_BITS 14
/* The largest sum of the absolute values in a row of a matrix. It keeps the products of a row, and
 * their sum, within 32 bits. */
#define COLOUR_ROW_MAX 7.99

struct colour_matrix {
    int32_t rows[3][4];               /* Three factors, in units of 1/COLOUR_ONE, and a summand, in
                                         the units of the products, 1/COLOUR_ONE^2. The summand
                                         includes 1/2 for rounding. */
    uint16_t linear[3][256];          /* the linear light of each byte of R, G and B */
    uint8_t encoded[COLOUR_ONE + 32]; /* the byte of sRGB for linear light */
};

/* A position on an axis of a grid is one word: the index of the node before it, shifted left by 16,
 * plus the distance from that node, 0 to COLOUR_STEP. COLOUR_STEP is the distance of two nodes. */
#define COLOUR_STEP 32768
#define COLOUR_STEP_BITS 15
#define COLOUR_CUBE_SIDE 33
#define COLOUR_INKS_SIDE 17
#define COLOUR_CUBE_NODES (COLOUR_CUBE_SIDE * COLOUR_CUBE_SIDE * COLOUR_CUBE_SIDE)
#define COLOUR_INKS_NODES                                                                          \
    (COLOUR_INKS_SIDE * COLOUR_INKS_SIDE * COLOUR_INKS_SIDE * COLOUR_INKS_SIDE)

/* A node of a grid: R, G and B of sRGB in units of 1/65535, and padding. */
#ifdef __cplusplus
struct alignas(8) colour_node {
#else
struct __attribute__((aligned(8))) colour_node {
#endif
    uint16_t rgb[4];
};

/* In both grids, the index of the last axis varies fastest. */
struct colour_cube {
    uint32_t positions[3][256]; /* of each byte of R, G and B on its axis */
    struct colour_node nodes[COLOUR_CUBE_NODES];
};

struct colour_inks {
    uint32_t positions[4][256]; /* of each byte of C, M, Y and K on its axis. As in a JPEG, 255 is
                                   no ink. */
    struct colour_node nodes[COLOUR_INKS_NODES];
};
