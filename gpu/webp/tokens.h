/*
 * tokens.h - the tokens of the coefficients' levels (RFC 6386, section 13).
 *
 * A token is a bit with a probability. A level has one token or more, whose probabilities depend on
 * the level's cell: the type of its block, the band of its index, and its context. The context is
 * whether the blocks above and to the left have levels, or the size of the level before. The first
 * token of a level, unless a 0 precedes it in the block, says that there is one. The end of a block
 * after its last level that is not 0 is a token, too.
 */
#pragma once

#include "gpu/simt/simt.h"
#include "gpu/webp/encode_impl.h"

/* A token: its probability, and its bit. */
#define TOKEN_BIT 0x100u

#define CELLS              96 /* 4 types of blocks, 8 bands, 3 contexts */
#define CELL_PROBABILITIES 11

/* Types of blocks: luma without DC, luma DC, chroma, luma with DC. */
#define LUMA_AC 0u
#define LUMA_DC 1u
#define CHROMA  2u
#define LUMA    3u

/* Levels of a class have the same tokens, but for the extra bits. */
#define CLASS_5         5
#define CLASS_7         6
#define CLASS_11        7 /* 11 to 18, then 19 to 34, 35 to 66, 67 to 2047 */
#define CLASS_35        9
#define CLASS_END       11 /* of a block */
#define CLASSES         12
#define SIZE_SMALL      4 /* The class of a smaller level is its size. */
#define SIZE_WITH_EXTRA 11

#define BLOCK_LANES  16
#define BLOCKS       25 /* luma DC, 16 of luma, 4 of U, 4 of V */
#define CHROMA_BLOCK 17

DEVICE uint32_t class_of(uint32_t size)
{
    if (size <= SIZE_SMALL)
        return size;
    if (size < SIZE_WITH_EXTRA)
        return size <= 6 ? CLASS_5 : CLASS_7;
    uint32_t octave = (uint32_t)highest_bit(size - 3) + 4;
    return octave < CLASS_END - 1 ? octave : CLASS_END - 1;
}

/* Returns the tokens of a level of the class, without the one that says that there is a level. 5
 * bits per class: 1, 3, 5, 6, 6, 7, 8, 10, 11, 12, 18. */
DEVICE uint32_t class_tokens(uint32_t class_index)
{
    const uint64_t counts = 1 | 3 << 5 | 5 << 10 | 6 << 15 | 6 << 20 | 7 << 25 | 8ull << 30 |
                            10ull << 35 | 11ull << 40 | 12ull << 45 | 18ull << 50;
    return (uint32_t)(counts >> 5 * class_index) & 31;
}

/* The band of a coefficient by its index in coding order. */
DEVICE uint32_t band_of(uint32_t index)
{
    const uint64_t bands = 0x7666666665463210;
    return (uint32_t)(bands >> 4 * index) & 15;
}

DEVICE uint32_t cell_of(uint32_t type, uint32_t band, uint32_t context)
{
    return (type * 8 + band) * 3 + context;
}

/* Whether a level in this cell has a token that says that there is one: unless a 0 precedes it. */
DEVICE bool cell_has_check(uint32_t cell)
{
    uint32_t type = cell / 24, band = cell / 3 % 8;
    return cell % 3 > 0 || band == 0 || (type == LUMA_AC && band == 1);
}

/* ---- blocks ---- */

/* The blocks of a macroblock, one per lane. */
struct block_lanes {
    uint32_t present, full;        /* bit b: block b exists; it has levels */
    uint32_t type, first, context; /* of the lane's block; first: index of its first level */
};

/* Returns the context of the luma DC block: whether the nearest macroblock with such a block has
 * levels in it. Looks at `count` macroblocks before `luma`, `step` apart. */
SIMT uint32_t dc_context(const struct webp_luma *luma, uint32_t count, uint32_t step)
{
    for (uint32_t i = 0; i < count; i += WARP_LANES) {
        uint32_t at = i + (uint32_t)lane_index();
        const struct webp_luma *other = luma - (size_t)(at + 1) * step;
        bool is_16x16 = at < count && other->is_16x16;
        uint32_t nonzero = is_16x16 ? other->nonzero : 0, found = warp_ballot(is_16x16);
        if (found)
            return warp_read(nonzero, lowest_bit(found)) >> 24 & 1;
    }
    return 0;
}

/* Whether a macroblock has levels. */
DEVICE bool has_levels(const struct webp_encode_descriptor *image, uint32_t macroblock)
{
    return image->luma[macroblock].nonzero != 0 || (image->chroma[macroblock] & 255) != 0;
}

SIMT struct block_lanes block_lanes_of(const struct webp_encode_descriptor *image,
                                       uint32_t macroblock)
{
    struct block_lanes of = {0, 0, 0, 0, 0};
    uint32_t columns = image->columns, x = macroblock % columns, y = macroblock / columns;
    uint32_t lane = (uint32_t)lane_index();
    const struct webp_luma *luma = image->luma + macroblock;
    const webp_chroma *chroma = image->chroma + macroblock;
    uint32_t is_16x16 = luma->is_16x16, nonzero = luma->nonzero, uv = *chroma & 255;
    uint32_t above = y > 0 ? luma[-(int)columns].nonzero : 0, left = x > 0 ? luma[-1].nonzero : 0;
    uint32_t uv_above = y > 0 ? chroma[-(int)columns] : 0, uv_left = x > 0 ? chroma[-1] : 0;
    uint32_t dc = 0;
    if (is_16x16)
        dc = dc_context(luma, x, 1) + dc_context(luma, y, columns);
    of.present = is_16x16 ? (1u << BLOCKS) - 1 : (1u << BLOCKS) - 2;
    of.full = (nonzero >> 24 & is_16x16) | (nonzero & 0xFFFF) << 1 | uv << CHROMA_BLOCK;
    if (lane == 0) {
        of.type = LUMA_DC;
        of.context = dc;
    } else if (lane < CHROMA_BLOCK) {
        uint32_t b = lane - 1;
        of.type = is_16x16 ? LUMA_AC : LUMA;
        of.first = is_16x16;
        of.context = ((b >= 4 ? nonzero >> (b - 4) : above >> (b + 12)) & 1) +
                     ((b % 4 > 0 ? nonzero >> (b - 1) : left >> (b + 3)) & 1);
    } else if (lane < BLOCKS) {
        uint32_t b = lane - CHROMA_BLOCK;
        of.type = CHROMA;
        of.context = ((b & 2 ? uv >> (b - 2) : uv_above >> (b + 2)) & 1) +
                     ((b & 1 ? uv >> (b - 1) : uv_left >> (b + 1)) & 1);
    }
    return of;
}

/* The cell of the end of the lane's block if it has no levels. */
SIMT uint32_t empty_cell(const struct block_lanes *blocks)
{
    return cell_of(blocks->type, blocks->first, blocks->context);
}

/* ---- levels ---- */

/* The level of a lane: lanes 0 to 15 have those of a block, lanes 16 to 31 those of the next. */
struct level_lane {
    int block;           /* the lowest one if there is no next */
    uint32_t cell, size; /* size: without the sign */
    uint32_t end_cell;   /* of the end of the block */
    bool negative;
    bool coded; /* It has tokens. */
    bool check; /* One of them says that there is a level. */
    bool ends;  /* The end of the block follows, or comes instead. */
};

/* Takes the lowest two blocks from *mask, and loads their levels. levels: of the macroblock */
SIMT struct level_lane next_levels(const struct block_lanes *blocks, uint32_t *mask,
                                   const int16_t *levels)
{
    struct level_lane of;
    uint32_t n = (uint32_t)lane_index() % BLOCK_LANES, rest = *mask & (*mask - 1);
    bool high = lane_index() >= BLOCK_LANES, present = !high || rest;
    int block = lowest_bit(high && rest ? rest : *mask);
    of.block = block;
    *mask = rest & (rest - 1);
    uint32_t own = warp_read(blocks->type | blocks->first << 2 | blocks->context << 3, block);
    uint32_t type = own & 3, first = own >> 2 & 1, context = own >> 3;
    int level = present && n >= first ? levels[block * BLOCK_LANES + (int)n] : 0;
    uint32_t coded = warp_ballot(level != 0);
    int last = highest_bit(high ? coded >> 16 : coded & 0xFFFF);
    of.negative = level < 0;
    of.size = (uint32_t)(of.negative ? -level : level);
    uint32_t before = warp_read_up(of.size, 1);
    if (n > first)
        context = before < 2 ? before : 2;
    of.cell = cell_of(type, band_of(n), context);
    of.coded = n >= first && (int)n <= last;
    of.check = of.coded && (n == first || context > 0);
    of.ends = of.coded ? (int)n == last && n < 15 : present && n == first && last < 0;
    of.end_cell = of.coded
                      ? cell_of(type, band_of((n + 1) % BLOCK_LANES), of.size < 2 ? of.size : 2)
                      : of.cell;
    return of;
}

/* Number of tokens of a lane. */
SIMT uint32_t level_tokens(const struct level_lane *of)
{
    uint32_t count = of->coded ? class_tokens(class_of(of->size)) : 0;
    return count + of->check + of->ends;
}

/* Number of tokens of a macroblock without levels. */
DEVICE uint32_t empty_tokens(const struct webp_luma *luma)
{
    return BLOCKS - 1 + luma->is_16x16;
}

/* ---- writing ---- */

/* Tokens that a warp writes in order: aligned units of 16 bytes as soon as they are full. */
#define STAGE_TOKENS 2048
#define UNIT_TOKENS  8
/* A level has so many tokens at most. */
#define LEVEL_TOKENS_MAX 20

struct token_stage {
    words4 units[STAGE_TOKENS / UNIT_TOKENS]; /* the first has the first token to write */
};

struct token_writer {
    uint16_t *stage; /* the tokens of a struct token_stage */
    const uint8_t *probabilities;
    uint16_t *to;         /* where stage[0] goes: aligned to 16 */
    uint32_t start, fill; /* in stage[] */
};

/* at: the first token, of an array aligned to 16 */
SIMT struct token_writer token_writer_at(struct token_stage *stage, const uint8_t *probabilities,
                                         uint16_t *tokens, uint32_t at)
{
    struct token_writer writer;
    writer.stage = (uint16_t *)stage->units;
    writer.probabilities = probabilities;
    writer.to = tokens + at / UNIT_TOKENS * UNIT_TOKENS;
    writer.start = writer.fill = at % UNIT_TOKENS;
    return writer;
}

/* Writes the staged tokens; the last ones only if they fill a unit, or at the end. */
SIMT void flush_tokens(struct token_writer *writer, bool at_end)
{
    int lane = lane_index();
    uint16_t *tokens = writer->stage;
    uint32_t end = writer->fill / UNIT_TOKENS * UNIT_TOKENS, start = writer->start;
    uint32_t rest = writer->fill - end;
    warp_barrier();
    uint32_t first = (start + UNIT_TOKENS - 1) / UNIT_TOKENS * UNIT_TOKENS;
    if (first <= end) {
        for (uint32_t i = start + (uint32_t)lane; i < first; i += WARP_LANES)
            writer->to[i] = tokens[i];
        for (uint32_t i = first + (uint32_t)lane * UNIT_TOKENS; i < end;
             i += WARP_LANES * UNIT_TOKENS)
            *(words4 *)(writer->to + i) = *(const words4 *)(tokens + i);
        start = 0;
    } else {
        start -= end;
    }
    uint16_t last = lane < UNIT_TOKENS ? tokens[end + (uint32_t)lane] : 0;
    writer->to += end;
    if (at_end && (uint32_t)lane >= start && (uint32_t)lane < rest)
        writer->to[lane] = last;
    warp_barrier();
    if ((uint32_t)lane < rest)
        tokens[lane] = last;
    writer->start = start;
    writer->fill = rest;
}

/* A lane's place in the staged tokens. */
struct token_place {
    uint16_t *at;
};

SIMT void put_token(struct token_place *to, bool bit, uint32_t probability)
{
    *to->at++ = (uint16_t)(probability | (bit ? TOKEN_BIT : 0));
}

/* The probabilities of the extra bits of levels from 11 on, from the first bit on, in the lowest
 * byte; the last three of the 11 bits of the largest levels separately. */
DEVICE uint32_t extra_probability(int bits, int index)
{
    const uint64_t probabilities = bits == 3   ? 0x8C94AD
                                   : bits == 4 ? 0x878C9BB0
                                   : bits == 5 ? 0x82868D9DB4
                                               : 0x8C99B1C4E6F3FEFE;
    if (index < 8)
        return (uint32_t)(probabilities >> 8 * index) & 255;
    return index == 8 ? 133 : index == 9 ? 130 : 129;
}

/* Puts the tokens of the size of a level from 11 on. p: the probabilities of its cell */
SIMT void put_large(struct token_place *to, const uint8_t *p, uint32_t size)
{
    int octave = highest_bit(size - 3), bits = octave < 6 ? octave : 11;
    uint32_t base = octave < 6 ? 3 + (1u << octave) : 3 + 64;
    put_token(to, octave >= 5, p[8]);
    if (octave < 5)
        put_token(to, octave == 4, p[9]);
    else
        put_token(to, octave > 5, p[10]);
    for (int i = 0; i < bits; i++)
        put_token(to, (size - base) >> (bits - 1 - i) & 1, extra_probability(bits, i));
}

/* Puts the tokens of a lane's level, and of the end of its block. */
SIMT void put_level(const struct token_writer *writer, uint16_t *at, const struct level_lane *of)
{
    struct token_place to = {at};
    const uint8_t *p = writer->probabilities + of->cell * CELL_PROBABILITIES;
    uint32_t size = of->size;
    if (of->check)
        put_token(&to, true, p[0]);
    if (of->coded)
        put_token(&to, size > 0, p[1]);
    if (size > 0)
        put_token(&to, size > 1, p[2]);
    if (size > 1)
        put_token(&to, size > SIZE_SMALL, p[3]);
    if (size > 1 && size <= SIZE_SMALL)
        put_token(&to, size > 2, p[4]);
    if (size > 2 && size <= SIZE_SMALL)
        put_token(&to, size > 3, p[5]);
    if (size > SIZE_SMALL) {
        put_token(&to, size >= SIZE_WITH_EXTRA, p[6]);
        if (size < SIZE_WITH_EXTRA) {
            put_token(&to, size > 6, p[7]);
            put_token(&to, size > 6 ? size > 8 : size > 5, size > 6 ? 165 : 159);
            if (size > 6)
                put_token(&to, !(size & 1), 145);
        } else {
            put_large(&to, p, size);
        }
    }
    if (size > 0)
        put_token(&to, of->negative, 128);
    if (of->ends)
        put_token(&to, false, writer->probabilities[of->end_cell * CELL_PROBABILITIES]);
}

/* Appends the tokens of a macroblock. count: of these tokens */
SIMT void put_macroblock(struct token_writer *writer, const struct webp_encode_descriptor *image,
                         uint32_t macroblock, uint32_t count)
{
    struct block_lanes blocks = block_lanes_of(image, macroblock);
    const int16_t *levels = image->levels + (size_t)macroblock * WEBP_LEVELS;
    int lane = lane_index();
    if (writer->fill + count > STAGE_TOKENS)
        flush_tokens(writer, false);
    bool fits = writer->fill + count <= STAGE_TOKENS;
    /* The ends of blocks without levels come last, if all tokens are staged until then. */
    uint32_t empty = fits ? blocks.present & ~blocks.full : 0;
    uint32_t mask = blocks.present & ~empty, end = writer->fill, own = empty >> lane & 1;
    while (mask) {
        uint32_t total;
        struct level_lane of = next_levels(&blocks, &mask, levels);
        uint32_t below = warp_scan(level_tokens(&of), &total);
        uint32_t skipped = (uint32_t)count_bits(empty & ((1u << of.block) - 1));
        put_level(writer, writer->stage + end + below + skipped, &of);
        /* Each block's lane keeps the number of its tokens. */
        uint32_t low = warp_read(below, BLOCK_LANES);
        int first = (int)warp_read((uint32_t)of.block, 0);
        int second = (int)warp_read((uint32_t)of.block, BLOCK_LANES);
        own = lane == second ? total - low : own;
        own = lane == first ? low + (first == second ? total - low : 0) : own;
        end += total;
        if (!fits && end > STAGE_TOKENS - WARP_LANES * LEVEL_TOKENS_MAX) {
            writer->fill = end;
            flush_tokens(writer, false);
            end = writer->fill;
        }
    }
    if (fits) {
        uint32_t at = writer->fill + warp_scan(own, &own);
        if (empty >> lane & 1) {
            struct token_place to = {writer->stage + at};
            put_token(&to, false, writer->probabilities[empty_cell(&blocks) * CELL_PROBABILITIES]);
        }
        end = writer->fill + count;
    }
    writer->fill = end;
}
