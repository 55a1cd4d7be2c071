/*
 * contexts.h - the contexts of symbols (AV1 8.3.2).
 */
#pragma once

#include "gpu/avif/entropy/tokens.h"
#include "gpu/avif/transform/levels.h"

/* ---- modes. above, left: the neighbouring blocks in the tile, or NULL ---- */

DEVICE int avif_skip_context(const struct avif_block *above, const struct avif_block *left)
{
    return (above ? above->skip : 0) + (left ? left->skip : 0);
}

/* Classes of modes: Intra_Mode_Context. */
DEVICE int avif_mode_class(const struct avif_block *neighbour)
{
    int mode = neighbour ? (int)neighbour->mode : (int)DC_PRED;
    switch (mode) {
    case V_PRED:
    case SMOOTH_V_PRED:
        return 1;
    case H_PRED:
    case SMOOTH_H_PRED:
        return 2;
    case D45_PRED:
    case D67_PRED:
        return 3;
    case D135_PRED:
    case D113_PRED:
    case D157_PRED:
    case D203_PRED:
        return 4;
    default:
        return 0;
    }
}

DEVICE int avif_partition_context(const struct avif_block *above, const struct avif_block *left,
                                  int size)
{
    return 2 * (left && left->size < size) + (above && above->size < size);
}

DEVICE int avif_depth_context(const struct avif_block *above, const struct avif_block *left,
                              int size)
{
    return (above && above->transform_size >= size) + (left && left->transform_size >= size);
}

/* ---- coefficients ---- */

/* Of the flag that all levels of a transform are 0. above, left: `columns` and `rows` units inside
 * the frame. block_size: of the block in this plane */
DEVICE int avif_zero_context(bool chroma, int size, int block_size,
                             const struct avif_level_context *above, int columns,
                             const struct avif_level_context *left, int rows, size_t left_stride)
{
    int top = 0, side = 0;
    if (chroma) {
        for (int i = 0; i < columns; i++)
            top |= above[i].sum | above[i].dc_sign;
        for (int i = 0; i < rows; i++)
            side |= left[(size_t)i * left_stride].sum | left[(size_t)i * left_stride].dc_sign;
        return 7 + (top != 0) + (side != 0) + (block_size > size ? 3 : 0);
    }
    for (int i = 0; i < columns; i++)
        top = avif_max(top, above[i].sum);
    for (int i = 0; i < rows; i++)
        side = avif_max(side, left[(size_t)i * left_stride].sum);
    if (size == block_size)
        return 0;
    if (top == 0 || side == 0)
        return top == 0 && side == 0 ? 1 : 2 + (avif_max(top, side) > 3);
    return avif_max(top, side) <= 3 ? 4 : avif_min(top, side) <= 3 ? 5 : 6;
}

DEVICE int avif_dc_sign_context(const struct avif_level_context *above, int columns,
                                const struct avif_level_context *left, int rows, size_t left_stride)
{
    int sum = 0;
    for (int i = 0; i < columns; i++)
        sum += (above[i].dc_sign == 2) - (above[i].dc_sign == 1);
    for (int i = 0; i < rows; i++)
        sum += (left[(size_t)i * left_stride].dc_sign == 2) -
               (left[(size_t)i * left_stride].dc_sign == 1);
    return sum < 0 ? 1 : sum > 0 ? 2 : 0;
}

/* Of the last level that is not 0, at an index of the scan of side * side coefficients. */
DEVICE int avif_last_context(int index, int side)
{
    return index == 0 ? 0 : index <= side * side / 8 ? 1 : index <= side * side / 4 ? 2 : 3;
}

/* Of a level up to 3. sum: avif_level_sum */
DEVICE int avif_base_context(int sum, int row, int column)
{
    int context = avif_min((sum + 1) >> 1, 4), away = row + column;
    return away == 0 ? 0 : context + (away < 2 ? 1 : away < 4 ? 6 : 21);
}

/* Of the rest of a level from 3 to 14. sum: of the levels to the right, below, and diagonal, each
 * at most 15 */
DEVICE int avif_range_context(int sum, int row, int column)
{
    int context = avif_min((sum + 1) >> 1, 6);
    if (row + column == 0)
        return context;
    return context + (row < 2 && column < 2 ? 7 : 14);
}
