/*
 * tokeniser.h - stage C: turns blocks into tokens, but for palettes, which kernels do not have.
 *
 * The tokens of a block depend only on the decisions of stage B, on its own and on those of its
 * neighbours. So blocks can be tokenised in any order.
 */
#pragma once

#include <stddef.h>

#include "gpu/avif/entropy/contexts.h"
#include "gpu/avif/predict/predict.h"

/* Tokens beyond `room` are only counted. */
struct avif_tokeniser {
    const struct avif_encoder *encoder;
    struct avif_bounds tile;
    avif_token *tokens;
    uint32_t count, room;
};

/* The first entry of a context of struct avif_cdfs. */
#define CONTEXT(member) ((uint32_t)(offsetof(struct avif_cdfs, member) / sizeof(uint16_t)))

DEVICE void avif_put(struct avif_tokeniser *to, avif_token token)
{
    if (to->count < to->room)
        to->tokens[to->count] = token;
    to->count++;
}

/* first: a CONTEXT whose indices are 0; index: of the contexts that follow it */
DEVICE void avif_put_one(struct avif_tokeniser *to, uint32_t first, int index, int symbols,
                         int symbol)
{
    avif_put(to, avif_symbol_token(first + (uint32_t)(index * avif_cdf_entries(symbols)), symbols,
                                   symbol));
}

DEVICE void avif_put_literal_token(struct avif_tokeniser *to, uint32_t value, int bits)
{
    if (bits > LITERAL_BITS_MAX) {
        avif_put(to, avif_symbol_token(value >> LITERAL_BITS_MAX, 0, bits - LITERAL_BITS_MAX));
        value &= (1u << LITERAL_BITS_MAX) - 1;
        bits = LITERAL_BITS_MAX;
    }
    if (bits > 0)
        avif_put(to, avif_symbol_token(value, 0, bits));
}

DEVICE const struct avif_block *avif_above_of(const struct avif_tokeniser *to, int x, int y)
{
    return y > to->tile.top ? avif_block_at(to->encoder, x, y - 1) : NULL;
}

DEVICE const struct avif_block *avif_left_of(const struct avif_tokeniser *to, int x, int y)
{
    return x > to->tile.left ? avif_block_at(to->encoder, x - 1, y) : NULL;
}

/* ---- modes ---- */

DEVICE void avif_tokenise_partition(struct avif_tokeniser *to, int x, int y, int size, bool split)
{
    const int none = 0, four = 3;
    const struct avif_frame *frame = &to->encoder->frame;
    int half = 1 << (size - 1);
    bool has_rows = y + half < 8 * frame->cells_y, has_columns = x + half < 8 * frame->cells_x;
    int context = avif_partition_context(avif_above_of(to, x, y), avif_left_of(to, x, y), size);
    uint32_t first = size == 3 ? CONTEXT(partition_8) + (uint32_t)context * 4
                               : CONTEXT(partition) + (uint32_t)((size - 4) * 4 + context) * 16;
    if (has_rows && has_columns)
        avif_put_one(to, first, 0, size == 3 ? 4 : 10, split ? four : none);
    else if (has_columns)
        avif_put(to, avif_symbol_token(first, 1, SPLIT_OR_HORZ));
    else if (has_rows)
        avif_put(to, avif_symbol_token(first, 1, SPLIT_OR_VERT));
}

DEVICE void avif_put_chroma_mode(struct avif_tokeniser *to, const struct avif_block *block)
{
    if (block->size <= 5)
        avif_put_one(to, CONTEXT(uv_mode_cfl), block->mode, 14, block->uv_mode);
    else
        avif_put_one(to, CONTEXT(uv_mode), block->mode, 13, block->uv_mode);
    if (block->uv_mode == CFL_PRED) {
        int u = block->cfl[0], v = block->cfl[1];
        int sign_u = u == 0 ? 0 : u < 0 ? 1 : 2, sign_v = v == 0 ? 0 : v < 0 ? 1 : 2;
        avif_put_one(to, CONTEXT(cfl_sign), 0, 8, 3 * sign_u + sign_v - 1);
        if (u != 0)
            avif_put_one(to, CONTEXT(cfl_alpha), 3 * (sign_u - 1) + sign_v, 16, avif_abs(u) - 1);
        if (v != 0)
            avif_put_one(to, CONTEXT(cfl_alpha), 3 * (sign_v - 1) + sign_u, 16, avif_abs(v) - 1);
    }
    if (avif_is_directional(block->uv_mode))
        avif_put_one(to, CONTEXT(angle), block->uv_mode - V_PRED, 7, block->uv_delta + 3);
}

/* Appends the modes of a block. */
DEVICE void avif_tokenise_modes(struct avif_tokeniser *to, int x, int y)
{
    const struct avif_block *block = avif_block_at(to->encoder, x, y);
    const struct avif_block *above = avif_above_of(to, x, y), *left = avif_left_of(to, x, y);
    avif_put_one(to, CONTEXT(skip), avif_skip_context(above, left), 2, block->skip);
    avif_put_one(to, CONTEXT(y_mode), 5 * avif_mode_class(above) + avif_mode_class(left), 13,
                 block->mode);
    if (avif_is_directional(block->mode))
        avif_put_one(to, CONTEXT(angle), block->mode - V_PRED, 7, block->delta + 3);
    if (to->encoder->frame.planes > 1)
        avif_put_chroma_mode(to, block);
}

/* ---- coefficients ---- */

/* A transform block and what surrounds it. */
struct avif_coded {
    const int16_t *levels;
    const struct avif_level_context *above, *left;
    size_t left_stride; /* between rows of units */
    int columns, rows;  /* units of 4 samples inside the frame */
    int chroma, size, end;
};

DEVICE void avif_put_end(struct avif_tokeniser *to, const struct avif_coded *coded)
{
    int chroma = coded->chroma, end = coded->end;
    int rank = end < 2 ? 0 : highest_bit((uint32_t)end - 1) + 1, bits = rank - 1;
    if (coded->size == 2)
        avif_put_one(to, CONTEXT(end_16), chroma, 5, rank);
    else if (coded->size == 3)
        avif_put_one(to, CONTEXT(end_64), chroma, 7, rank);
    else if (coded->size == 4)
        avif_put_one(to, CONTEXT(end_256), chroma, 9, rank);
    else
        avif_put_one(to, CONTEXT(end_1024), chroma, 11, rank);
    if (bits < 1)
        return;
    uint32_t rest = (uint32_t)(end - 1) & ((1u << bits) - 1);
    avif_put_one(to, CONTEXT(end_extra), ((coded->size - 2) * 2 + chroma) * 9 + rank - 2, 2,
                 (int)(rest >> (bits - 1)));
    avif_put_literal_token(to, rest & ((1u << (bits - 1)) - 1), bits - 1);
}

/* The sum of the levels to the right, below, and diagonal, each at most 15. */
DEVICE int avif_range_sum(const int16_t *at, int side, int row, int column)
{
    int sum = 0;
    if (column + 1 < side)
        sum += avif_min(avif_abs(at[1]), 15);
    if (row + 1 < side) {
        sum += avif_min(avif_abs(at[side]), 15);
        if (column + 1 < side)
            sum += avif_min(avif_abs(at[side + 1]), 15);
    }
    return sum;
}

DEVICE void avif_put_range(struct avif_tokeniser *to, const struct avif_coded *coded, int level,
                           int context)
{
    int first = (avif_min(coded->size - 2, 3) * 2 + coded->chroma) * 21;
    int rest = avif_min(level, 15) - 3;
    for (int i = 0; i < 4; i++, rest -= 3) {
        avif_put_one(to, CONTEXT(range), first + context, 4, avif_min(rest, 3));
        if (rest < 3)
            break;
    }
}

DEVICE void avif_put_magnitudes(struct avif_tokeniser *to, const struct avif_coded *coded)
{
    int bits = avif_min(coded->size, 5), side = 1 << bits;
    int plane = (coded->size - 2) * 2 + coded->chroma;
    const uint16_t *scan = to->encoder->scans->positions[bits - 2];
    for (int i = coded->end - 1; i >= 0; i--) {
        int row = scan[i] >> bits, column = scan[i] & (side - 1);
        const int16_t *at = &coded->levels[scan[i]];
        int level = avif_abs(*at);
        if (i == coded->end - 1) {
            avif_put_one(to, CONTEXT(base_last), plane * 4 + avif_last_context(i, side), 3,
                         avif_min(level, 3) - 1);
        } else {
            int sum = avif_level_sum(coded->levels, side, row, column);
            avif_put_one(to, CONTEXT(base), plane * 42 + avif_base_context(sum, row, column), 4,
                         avif_min(level, 3));
        }
        if (level > 2)
            avif_put_range(to, coded, level,
                           avif_range_context(avif_range_sum(at, side, row, column), row, column));
    }
}

/* Exp-Golomb: as many zeros as bits follow the first one. */
DEVICE void avif_put_rest(struct avif_tokeniser *to, int rest)
{
    avif_put_literal_token(to, (uint32_t)rest, 2 * highest_bit((uint32_t)rest) + 1);
}

DEVICE void avif_put_signs(struct avif_tokeniser *to, const struct avif_coded *coded)
{
    const uint16_t *scan = to->encoder->scans->positions[avif_min(coded->size, 5) - 2];
    for (int i = 0; i < coded->end; i++) {
        int level = coded->levels[scan[i]], size = avif_abs(level);
        if (level == 0)
            continue;
        if (i == 0)
            avif_put_one(to, CONTEXT(dc_sign),
                         3 * coded->chroma + avif_dc_sign_context(coded->above, coded->columns,
                                                                  coded->left, coded->rows,
                                                                  coded->left_stride),
                         2, level < 0);
        else
            avif_put_literal_token(to, level < 0, 1);
        if (size > 14)
            avif_put_rest(to, size - 14);
    }
}

/* The symbol of a transform type among 7, for sizes 2 and 3, or 5. */
DEVICE int avif_type_symbol(int type, int size)
{
    int symbols = size <= 3 ? 0x04651 : 0x02431;
    return symbols >> 4 * type & 15;
}

DEVICE void avif_put_transform(struct avif_tokeniser *to, const struct avif_coded *coded,
                               int block_size, int mode, int type)
{
    int zero = avif_zero_context(coded->chroma, coded->size, block_size, coded->above,
                                 coded->columns, coded->left, coded->rows, coded->left_stride);
    avif_put_one(to, CONTEXT(zero), (coded->size - 2) * 13 + zero, 2, coded->end == 0);
    if (coded->end == 0)
        return;
    if (!coded->chroma && coded->size <= 3)
        avif_put_one(to, CONTEXT(transform_type), (coded->size - 2) * 13 + mode, 7,
                     avif_type_symbol(type, coded->size));
    else if (!coded->chroma && coded->size == 4)
        avif_put_one(to, CONTEXT(transform_type_16), mode, 5, avif_type_symbol(type, coded->size));
    avif_put_end(to, coded);
    avif_put_magnitudes(to, coded);
    avif_put_signs(to, coded);
}

/* ---- blocks ---- */

/* (x, y): of the transform, in samples of the plane. edge: contexts of 0 for the edges of the
 * tile */
DEVICE struct avif_coded avif_coded_at(const struct avif_tokeniser *to, int plane, int x, int y,
                                       int size, const struct avif_level_context *edge)
{
    const struct avif_frame *frame = &to->encoder->frame;
    int shift = plane > 0, units = 1 << (size - 2);
    struct avif_coded coded;
    bool has_above = y > to->tile.top >> shift, has_left = x > to->tile.left >> shift;
    coded.chroma = shift;
    coded.size = size;
    coded.end = 0;
    coded.levels = NULL;
    coded.above = has_above ? avif_context_at(to->encoder, plane, x, y - 1) : edge;
    coded.left = has_left ? avif_context_at(to->encoder, plane, x - 1, y) : edge;
    coded.left_stride = has_left ? (size_t)frame->superblocks_x * (plane ? 8 : 16) : 0;
    coded.columns = avif_min(units, (8 * frame->cells_x >> shift) / 4 - x / 4);
    coded.rows = avif_min(units, (8 * frame->cells_y >> shift) / 4 - y / 4);
    return coded;
}

DEVICE void avif_put_luma(struct avif_tokeniser *to, const struct avif_block *block, int x, int y,
                          const struct avif_level_context *edge)
{
    const struct avif_frame *frame = &to->encoder->frame;
    int size = block->transform_size, side = 1 << size, count = block->size > size ? 4 : 1;
    for (int i = 0; i < count; i++) {
        int left = x + (i & 1) * side, top = y + (i >> 1) * side;
        if (left >= 8 * frame->cells_x || top >= 8 * frame->cells_y)
            continue;
        struct avif_coded coded = avif_coded_at(to, 0, left, top, size, edge);
        coded.levels = avif_levels_of(to->encoder, 0, x, y) + i * side * side;
        coded.end = block->ends[i];
        avif_put_transform(to, &coded, block->size, block->mode, block->types[i]);
    }
}

DEVICE void avif_put_depth(struct avif_tokeniser *to, const struct avif_block *block, int x, int y)
{
    int context = avif_depth_context(avif_above_of(to, x, y), avif_left_of(to, x, y), block->size);
    int depth = block->size - block->transform_size;
    if (block->size == 3)
        avif_put_one(to, CONTEXT(depth_8), context, 2, depth);
    else
        avif_put_one(to, CONTEXT(depth), 3 * (block->size - 4) + context, 3, depth);
}

/* Appends the transforms of a plane of a block. */
DEVICE void avif_tokenise_plane(struct avif_tokeniser *to, int x, int y, int plane)
{
    struct avif_level_context edge[16];
    const struct avif_block *block = avif_block_at(to->encoder, x, y);
    if (block->skip)
        return;
    memset(edge, 0, sizeof edge);
    if (plane == 0) {
        avif_put_luma(to, block, x, y, edge);
        return;
    }
    struct avif_coded coded = avif_coded_at(to, plane, x / 2, y / 2, block->size - 1, edge);
    coded.levels = avif_levels_of(to->encoder, plane, x, y);
    coded.end = block->ends[3 + plane];
    avif_put_transform(to, &coded, block->size - 1, block->mode, DCT_DCT);
}

/* Appends what follows the modes and palettes of a block. */
DEVICE void avif_tokenise_transforms(struct avif_tokeniser *to, int x, int y)
{
    if (to->encoder->frame.tools.split_transforms)
        avif_put_depth(to, avif_block_at(to->encoder, x, y), x, y);
    for (int plane = 0; plane < to->encoder->frame.planes; plane++)
        avif_tokenise_plane(to, x, y, plane);
}

#undef CONTEXT
