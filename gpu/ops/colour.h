/*
 * colour.h - converts pixels to sRGB with the tables of an ICC profile, and CMYK without a profile.
 *
 * These are the passes of the operation to_srgb. Their constants are the tables of
 * gpu/colour/tables.h. Interpolation in a grid is tetrahedral, as in lcms2: in each cell, four
 * corners contribute. They are on a path from the cell's lowest corner to its highest, which
 * follows first the axis on which the pixel is farthest from the lowest corner.
 */
#pragma once

#include "gpu/colour/tables.h"
#include "gpu/ops/pixel.h"

/* The parameters of the passes. The tables belong to plan.colours. */
struct colour_pass {
    const void *tables;
    enum colour_kind kind;
    uint32_t zero; /* no padding: pass.h */
};

/* A byte of sRGB: linear light r, g and b times a row of the matrix. */
PIXEL uint32_t colour_encoded(const struct colour_matrix *tables, const int32_t *row, int32_t r,
                              int32_t g, int32_t b)
{
    int32_t sum = row[0] * r + row[1] * g + row[2] * b + row[3];
    int32_t linear = sum >> COLOUR_ONE_BITS;
    return tables->encoded[linear < 0 ? 0 : linear > COLOUR_ONE ? COLOUR_ONE : linear];
}

PIXEL void colour_by_matrix(const struct colour_matrix *tables, const uint8_t *from, uint8_t *to)
{
    int32_t r = tables->linear[0][from[0]], g = tables->linear[1][from[1]];
    int32_t b = tables->linear[2][from[2]];
    for (int c = 0; c < 3; c++)
        to[c] = (uint8_t)colour_encoded(tables, tables->rows[c], r, g, b);
}

/* The mean of nodes whose weighted sum is `sum`; the weights add up to COLOUR_STEP. */
PIXEL uint32_t colour_mean(uint32_t sum)
{
    return (sum + COLOUR_STEP / 2) >> COLOUR_STEP_BITS;
}

/* Converts 0..65535 to 0..255, rounded, with the same multiplication as lcms2. */
PIXEL uint8_t colour_byte(uint32_t mean)
{
    return (uint8_t)((mean * 65281u + 8388608u) >> 24);
}

/* Interpolates in a cell of a grid with three axes. nodes: the cell's lowest corner; near_0 to
 * near_2: distances from that corner, 0 to COLOUR_STEP; side: nodes per axis. */
PIXEL void colour_in_cell(const struct colour_node *nodes, uint32_t near_0, uint32_t near_1,
                          uint32_t near_2, uint32_t side, uint32_t means[3])
{
    uint32_t step_0 = side * side, step_1 = side, step_2 = 1, swap;
    /* Sorts the axes by distance, the largest first. */
#define COLOUR_SORT(a, b)                                                                          \
    if (near_##a < near_##b) {                                                                     \
        swap = near_##a, near_##a = near_##b, near_##b = swap;                                     \
        swap = step_##a, step_##a = step_##b, step_##b = swap;                                     \
    }
    COLOUR_SORT(0, 1)
    COLOUR_SORT(1, 2)
    COLOUR_SORT(0, 1)
#undef COLOUR_SORT
    const struct colour_node n0 = nodes[0], n1 = nodes[step_0], n2 = nodes[step_0 + step_1];
    const struct colour_node n3 = nodes[step_0 + step_1 + step_2];
    for (int c = 0; c < 3; c++)
        means[c] = colour_mean(n0.rgb[c] * (COLOUR_STEP - near_0) + n1.rgb[c] * (near_0 - near_1) +
                               n2.rgb[c] * (near_1 - near_2) + n3.rgb[c] * near_2);
}

PIXEL void colour_by_cube(const struct colour_cube *tables, const uint8_t *from, uint8_t *to)
{
    uint32_t r = tables->positions[0][from[0]], g = tables->positions[1][from[1]];
    uint32_t b = tables->positions[2][from[2]], means[3];
    uint32_t node = ((r >> 16) * COLOUR_CUBE_SIDE + (g >> 16)) * COLOUR_CUBE_SIDE + (b >> 16);
    colour_in_cell(tables->nodes + node, r & 65535u, g & 65535u, b & 65535u, COLOUR_CUBE_SIDE,
                   means);
    for (int c = 0; c < 3; c++)
        to[c] = colour_byte(means[c]);
}

/* Interpolates in two grids of magenta, yellow and black, for the nodes of cyan before and after
 * the pixel, and then linearly between both results. */
PIXEL void colour_by_inks(const struct colour_inks *tables, const uint8_t *from, uint8_t *to)
{
    uint32_t c = tables->positions[0][from[0]], m = tables->positions[1][from[1]];
    uint32_t y = tables->positions[2][from[2]], k = tables->positions[3][from[3]];
    uint32_t cube = COLOUR_INKS_SIDE * COLOUR_INKS_SIDE * COLOUR_INKS_SIDE;
    uint32_t node = (c >> 16) * cube +
                    ((m >> 16) * COLOUR_INKS_SIDE + (y >> 16)) * COLOUR_INKS_SIDE + (k >> 16);
    uint32_t low[3], high[3], near = c & 65535u;
    m &= 65535u, y &= 65535u, k &= 65535u;
    colour_in_cell(tables->nodes + node, m, y, k, COLOUR_INKS_SIDE, low);
    colour_in_cell(tables->nodes + node + cube, m, y, k, COLOUR_INKS_SIDE, high);
    for (int i = 0; i < 3; i++)
        to[i] = colour_byte(colour_mean(low[i] * (COLOUR_STEP - near) + high[i] * near));
}

/* Converts CMYK without a profile, with inks as a JPEG stores them (255 is no ink): red is C K /
 * 255, and so on, rounded to nearest. There are no ties, because 255 is odd. */
PIXEL void colour_by_product(const uint8_t *from, uint8_t *to)
{
    for (int i = 0; i < 3; i++)
        to[i] = (uint8_t)((from[i] * from[3] + 127u) / 255u);
}
