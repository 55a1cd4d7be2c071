#include "gpu/avif/entropy/tokens.h"

#include <stddef.h>

#include "gpu/avif/entropy/contexts.h"
#include "gpu/avif/entropy/palettes.h"
#include "gpu/avif/predict/predict.h"

/* The first entry of a context of struct avif_cdfs. */
#define CONTEXT(member) ((uint32_t)(offsetof(struct avif_cdfs, member) / sizeof(uint16_t)))

static void put(struct avif_tokeniser *to, avif_token token)
{
    to->tokens[to->count++] = token;
}

/* first: a CONTEXT whose indices are 0; index: of the contexts that follow it */
static void put_symbol(struct avif_tokeniser *to, uint32_t first, int index, int symbols,
                       int symbol)
{
    put(to,
        avif_symbol_token(first + (uint32_t)(index * avif_cdf_entries(symbols)), symbols, symbol));
}

static void put_literal(struct avif_tokeniser *to, uint32_t value, int bits)
{
    if (bits > LITERAL_BITS_MAX) {
        put(to, avif_symbol_token(value >> LITERAL_BITS_MAX, 0, bits - LITERAL_BITS_MAX));
        value &= (1u << LITERAL_BITS_MAX) - 1;
        bits = LITERAL_BITS_MAX;
    }
    if (bits > 0)
        put(to, avif_symbol_token(value, 0, bits));
}

static const struct avif_block *above_of(const struct avif_tokeniser *to, int x, int y)
{
    return y > to->tile.top ? avif_block_at(to->encoder, x, y - 1) : NULL;
}

static const struct avif_block *left_of(const struct avif_tokeniser *to, int x, int y)
{
    return x > to->tile.left ? avif_block_at(to->encoder, x - 1, y) : NULL;
}

/* ---- modes ---- */

void avif_tokenise_partition(struct avif_tokeniser *to, int x, int y, int size, bool split)
{
    enum { none = 0, four = 3 };
    const struct avif_frame *frame = &to->encoder->frame;
    int half = 1 << (size - 1);
    bool has_rows = y + half < 8 * frame->cells_y, has_columns = x + half < 8 * frame->cells_x;
    int context = avif_partition_context(above_of(to, x, y), left_of(to, x, y), size);
    uint32_t first = size == 3 ? CONTEXT(partition_8) + (uint32_t)context * 4
                               : CONTEXT(partition) + (uint32_t)((size - 4) * 4 + context) * 16;
    if (has_rows && has_columns)
        put_symbol(to, first, 0, size == 3 ? 4 : 10, split ? four : none);
    else if (has_columns)
        put(to, avif_symbol_token(first, 1, SPLIT_OR_HORZ));
    else if (has_rows)
        put(to, avif_symbol_token(first, 1, SPLIT_OR_VERT));
}

static void put_chroma_mode(struct avif_tokeniser *to, const struct avif_block *block)
{
    if (block->size <= 5)
        put_symbol(to, CONTEXT(uv_mode_cfl), block->mode, 14, block->uv_mode);
    else
        put_symbol(to, CONTEXT(uv_mode), block->mode, 13, block->uv_mode);
    if (block->uv_mode == CFL_PRED) {
        int u = block->cfl[0], v = block->cfl[1];
        int sign_u = u == 0 ? 0 : u < 0 ? 1 : 2, sign_v = v == 0 ? 0 : v < 0 ? 1 : 2;
        put_symbol(to, CONTEXT(cfl_sign), 0, 8, 3 * sign_u + sign_v - 1);
        if (u != 0)
            put_symbol(to, CONTEXT(cfl_alpha), 3 * (sign_u - 1) + sign_v, 16, avif_abs(u) - 1);
        if (v != 0)
            put_symbol(to, CONTEXT(cfl_alpha), 3 * (sign_v - 1) + sign_u, 16, avif_abs(v) - 1);
    }
    if (avif_is_directional(block->uv_mode))
        put_symbol(to, CONTEXT(angle), block->uv_mode - V_PRED, 7, block->uv_delta + 3);
}

static void put_modes(struct avif_tokeniser *to, const struct avif_block *block, int x, int y)
{
    const struct avif_block *above = above_of(to, x, y), *left = left_of(to, x, y);
    put_symbol(to, CONTEXT(skip), avif_skip_context(above, left), 2, block->skip);
    put_symbol(to, CONTEXT(y_mode), 5 * avif_mode_class(above) + avif_mode_class(left), 13,
               block->mode);
    if (avif_is_directional(block->mode))
        put_symbol(to, CONTEXT(angle), block->mode - V_PRED, 7, block->delta + 3);
    if (to->encoder->frame.planes > 1)
        put_chroma_mode(to, block);
    if (to->encoder->frame.palettes)
        avif_tokenise_palettes(to, block, x, y);
    if (to->encoder->frame.tools.split_transforms) {
        int context = avif_depth_context(above, left, block->size);
        int depth = block->size - block->transform_size;
        if (block->size == 3)
            put_symbol(to, CONTEXT(depth_8), context, 2, depth);
        else
            put_symbol(to, CONTEXT(depth), 3 * (block->size - 4) + context, 3, depth);
    }
}

/* ---- coefficients ---- */

/* A transform block and what surrounds it. */
struct coded {
    const int16_t *levels;
    struct avif_level_context *above, *left;
    int columns, rows; /* units of 4 samples inside the frame */
    int chroma, size, end;
};

static void put_end(struct avif_tokeniser *to, const struct coded *coded)
{
    int chroma = coded->chroma, end = coded->end;
    int rank = end < 2 ? 0 : highest_bit((uint32_t)end - 1) + 1, bits = rank - 1;
    if (coded->size == 2)
        put_symbol(to, CONTEXT(end_16), chroma, 5, rank);
    else if (coded->size == 3)
        put_symbol(to, CONTEXT(end_64), chroma, 7, rank);
    else if (coded->size == 4)
        put_symbol(to, CONTEXT(end_256), chroma, 9, rank);
    else
        put_symbol(to, CONTEXT(end_1024), chroma, 11, rank);
    if (bits < 1)
        return;
    uint32_t rest = (uint32_t)(end - 1) & ((1u << bits) - 1);
    put_symbol(to, CONTEXT(end_extra), ((coded->size - 2) * 2 + chroma) * 9 + rank - 2, 2,
               (int)(rest >> (bits - 1)));
    put_literal(to, rest & ((1u << (bits - 1)) - 1), bits - 1);
}

/* Absolute levels up to 15, with two columns and rows of zeros after them. */
struct magnitudes {
    uint8_t of[(32 + 2) * (32 + 2)];
    int stride;
};

static void set_magnitudes(const struct coded *coded, struct magnitudes *to)
{
    int side = avif_coded_side(coded->size);
    to->stride = side + 2;
    memset(to->of, 0, sizeof to->of[0] * (size_t)(to->stride * to->stride));
    for (int row = 0; row < side; row++)
        for (int column = 0; column < side; column++)
            to->of[row * to->stride + column] =
                (uint8_t)avif_min(avif_abs(coded->levels[row * side + column]), 15);
}

static void put_range(struct avif_tokeniser *to, const struct coded *coded, const uint8_t *at,
                      int stride, int row, int column)
{
    int sum = at[1] + at[stride] + at[stride + 1], rest = *at - 3;
    int context = avif_range_context(sum, row, column);
    int first = (avif_min(coded->size - 2, 3) * 2 + coded->chroma) * 21;
    for (int i = 0; i < 4; i++, rest -= 3) {
        put_symbol(to, CONTEXT(range), first + context, 4, avif_min(rest, 3));
        if (rest < 3)
            break;
    }
}

static void put_magnitudes(struct avif_tokeniser *to, const struct coded *coded)
{
    struct magnitudes magnitudes;
    int bits = avif_min(coded->size, 5), side = 1 << bits, stride = side + 2;
    int plane = (coded->size - 2) * 2 + coded->chroma;
    const uint16_t *scan = avif_scans()->positions[bits - 2];
    set_magnitudes(coded, &magnitudes);
    for (int i = coded->end - 1; i >= 0; i--) {
        int row = scan[i] >> bits, column = scan[i] & (side - 1);
        const uint8_t *at = &magnitudes.of[row * stride + column];
        if (i == coded->end - 1) {
            put_symbol(to, CONTEXT(base_last), plane * 4 + avif_last_context(i, side), 3,
                       avif_min(*at, 3) - 1);
        } else {
            int sum = avif_min(at[1], 3) + avif_min(at[2], 3) + avif_min(at[stride], 3) +
                      avif_min(at[stride + 1], 3) + avif_min(at[2 * stride], 3);
            put_symbol(to, CONTEXT(base), plane * 42 + avif_base_context(sum, row, column), 4,
                       avif_min(*at, 3));
        }
        if (*at > 2)
            put_range(to, coded, at, stride, row, column);
    }
}

/* Exp-Golomb: as many zeros as bits follow the first one. */
static void put_rest(struct avif_tokeniser *to, int rest)
{
    put_literal(to, (uint32_t)rest, 2 * highest_bit((uint32_t)rest) + 1);
}

/* Returns the sum of the absolute levels, up to 63. */
static int put_signs(struct avif_tokeniser *to, const struct coded *coded)
{
    const uint16_t *scan = avif_scans()->positions[avif_min(coded->size, 5) - 2];
    int sum = 0;
    for (int i = 0; i < coded->end; i++) {
        int level = coded->levels[scan[i]], size = avif_abs(level);
        if (level == 0)
            continue;
        if (i == 0)
            put_symbol(to, CONTEXT(dc_sign),
                       3 * coded->chroma + avif_dc_sign_context(coded->above, coded->columns,
                                                                coded->left, coded->rows),
                       2, level < 0);
        else
            put_literal(to, level < 0, 1);
        if (size > 14)
            put_rest(to, size - 14);
        sum = avif_min(sum + size, 63);
    }
    return sum;
}

static void put_transform(struct avif_tokeniser *to, struct coded *coded, int block_size,
                          const struct avif_block *block, int type)
{
    static const uint8_t symbols_7[] = {1, 5, 6, 4, 0}, symbols_5[] = {1, 3, 4, 2, 0};
    struct avif_level_context context = {0, 0};
    int zero = avif_zero_context(coded->chroma, coded->size, block_size, coded->above,
                                 coded->columns, coded->left, coded->rows);
    put_symbol(to, CONTEXT(zero), (coded->size - 2) * 13 + zero, 2, coded->end == 0);
    if (coded->end > 0) {
        if (!coded->chroma && coded->size <= 3)
            put_symbol(to, CONTEXT(transform_type), (coded->size - 2) * 13 + block->mode, 7,
                       symbols_7[type]);
        else if (!coded->chroma && coded->size == 4)
            put_symbol(to, CONTEXT(transform_type_16), block->mode, 5, symbols_5[type]);
        put_end(to, coded);
        put_magnitudes(to, coded);
        context.sum = (uint8_t)put_signs(to, coded);
        context.dc_sign = coded->levels[0] == 0 ? 0 : coded->levels[0] < 0 ? 1 : 2;
    }
    for (int i = 0; i < 1 << (coded->size - 2); i++)
        coded->above[i] = coded->left[i] = context;
}

/* ---- blocks ---- */

/* (x, y): of the transform, in samples of the plane */
static struct coded coded_at(struct avif_tokeniser *to, int plane, int x, int y, int size)
{
    const struct avif_frame *frame = &to->encoder->frame;
    int shift = plane > 0, units = 1 << (size - 2);
    struct coded coded = {.chroma = shift, .size = size};
    coded.above = to->above[plane] + (x - (to->tile.left >> shift)) / 4;
    coded.left = to->left[plane] + (y & (63 >> shift)) / 4;
    coded.columns = avif_min(units, (8 * frame->cells_x >> shift) / 4 - x / 4);
    coded.rows = avif_min(units, (8 * frame->cells_y >> shift) / 4 - y / 4);
    return coded;
}

static void put_luma(struct avif_tokeniser *to, const struct avif_block *block, int x, int y)
{
    const struct avif_frame *frame = &to->encoder->frame;
    int size = block->transform_size, side = 1 << size, count = block->size > size ? 4 : 1;
    for (int i = 0; i < count; i++) {
        int left = x + (i & 1) * side, top = y + (i >> 1) * side;
        if (left >= 8 * frame->cells_x || top >= 8 * frame->cells_y)
            continue;
        struct coded coded = coded_at(to, 0, left, top, size);
        coded.levels = to->encoder->superblock->levels + avif_levels_at(0, x, y) + i * side * side;
        coded.end = block->ends[i];
        put_transform(to, &coded, block->size, block, block->types[i]);
    }
}

static void clear_contexts(struct avif_tokeniser *to, int x, int y, int size)
{
    for (int plane = 0; plane < to->encoder->frame.planes; plane++) {
        int shift = plane > 0;
        struct coded coded = coded_at(to, plane, x >> shift, y >> shift, size - shift);
        size_t bytes = sizeof(struct avif_level_context) << (size - shift - 2);
        memset(coded.above, 0, bytes);
        memset(coded.left, 0, bytes);
    }
}

void avif_tokenise_block(struct avif_tokeniser *to, int x, int y)
{
    const struct avif_block *block = avif_block_at(to->encoder, x, y);
    put_modes(to, block, x, y);
    if (block->skip) {
        clear_contexts(to, x, y, block->size);
        return;
    }
    put_luma(to, block, x, y);
    for (int plane = 1; plane < to->encoder->frame.planes; plane++) {
        struct coded coded = coded_at(to, plane, x / 2, y / 2, block->size - 1);
        coded.levels = to->encoder->superblock->levels + avif_levels_at(plane, x, y);
        coded.end = block->ends[3 + plane];
        put_transform(to, &coded, block->size - 1, block, DCT_DCT);
    }
}

void avif_tokenise_row(struct avif_tokeniser *to)
{
    memset(to->left, 0, sizeof to->left);
    memset(to->palettes_left, 0, sizeof to->palettes_left);
}
