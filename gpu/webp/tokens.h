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

/* A token: its probability, and its bit. The probabilities of all tokens are known when tokens are
 * written. */
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

#define BLOCK_LEVELS 16
#define BLOCKS       25 /* of a macroblock: luma DC, 16 of luma, 4 of U, 4 of V */
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

/* Whether a macroblock has levels. */
DEVICE bool has_levels(const struct webp_encode_descriptor *image, uint32_t macroblock)
{
    return image->luma[macroblock].nonzero != 0 || (image->chroma[macroblock] & 255) != 0;
}

/* ---- records ---- */

/* The levels of a macroblock up to the last ones of its blocks, and the ends of the blocks, as
 * records of 16 bits in coding order: the cell, a code, and whether a token says that there is a
 * level. The code is the size of the level, and a bit for its sign; or that the block ends.
 *
 * Larger levels do not fit: their records have the index of the level in the macroblock, and the
 * context. */
#define RECORD_CODE     7 /* position of the code */
#define RECORD_CODES    32
#define CODE_NEGATIVE   16u
#define CODE_END        11u
#define RECORD_CHECK    0x1000u
#define RECORD_LARGE    0x8000u
#define RECORD_CONTEXT  9 /* position of the context */
#define RECORD_CELL_SET 127u
#define RECORD_LEVELS   511u

/* In token_counts[]: the tokens of the coefficients, the records, and whether there are no levels.
 */
#define COUNT_RECORDS 16 /* position */
#define COUNT_SKIPPED 0x80000000u

DEVICE uint32_t token_count_of(uint32_t counts)
{
    return counts & 0xFFFF;
}
DEVICE uint32_t record_count_of(uint32_t counts)
{
    return counts >> COUNT_RECORDS & 511;
}

/* A record that is read. */
struct record {
    uint32_t cell, code; /* code: without the sign, if the level is large */
    int level;           /* if it is large */
    bool check;
};

/* The type of the block of a level. */
DEVICE uint32_t type_of(uint32_t block, bool is_16x16)
{
    return block == 0 ? LUMA_DC : block >= CHROMA_BLOCK ? CHROMA : is_16x16 ? LUMA_AC : LUMA;
}

DEVICE struct record read_record(const struct webp_encode_descriptor *image, uint32_t macroblock,
                                 uint32_t bits)
{
    struct record of = {bits & RECORD_CELL_SET, bits >> RECORD_CODE & (RECORD_CODES - 1), 0,
                        (bits & RECORD_CHECK) != 0};
    if (!(bits & RECORD_LARGE))
        return of;
    uint32_t index = bits & RECORD_LEVELS;
    uint32_t type = type_of(index / BLOCK_LEVELS, image->luma[macroblock].is_16x16);
    of.level = image->levels[(size_t)macroblock * WEBP_LEVELS + index];
    of.cell = cell_of(type, band_of(index % BLOCK_LEVELS), bits >> RECORD_CONTEXT & 3);
    of.check = cell_has_check(of.cell);
    return of;
}

/* ---- writing ---- */

/* The probabilities of a cell, and fixed ones. */
#define P_159   11
#define P_165   12
#define P_145   13
#define P_128   14
#define P_COUNT 16
#define P_FIXED 0x8091A59Fu /* from P_159 on */
/* The tokens of a code: 5 bits each, an index of a probability and the bit, the first token in the
 * lowest bits; and from bit 56 on, their number. The first says that there is a level. */
#define PATTERN_BITS  5
#define PATTERN_COUNT 56

/* What write_tokens shares in a block of threads. */
struct token_tables {
    uint64_t patterns[RECORD_CODES];
    uint8_t probabilities[CELLS][P_COUNT];
};

struct token_pattern {
    uint64_t tokens;
    uint32_t count;
};

DEVICE void add_token(struct token_pattern *pattern, uint32_t index, bool bit)
{
    pattern->tokens |= (uint64_t)(index | (bit ? 16u : 0)) << PATTERN_BITS * pattern->count++;
}

/* Adds the tokens of a size from 5 to 10 after the first ones. */
DEVICE void add_medium(struct token_pattern *pattern, uint32_t size)
{
    add_token(pattern, 6, false);
    add_token(pattern, 7, size > 6);
    if (size <= 6) {
        add_token(pattern, P_159, size > 5);
        return;
    }
    add_token(pattern, P_165, size > 8);
    add_token(pattern, P_145, !(size & 1));
}

DEVICE uint64_t pattern_of(uint32_t code)
{
    struct token_pattern pattern = {0, 0};
    uint32_t size = code % CODE_NEGATIVE;
    add_token(&pattern, 0, size != CODE_END);
    if (size < CODE_END)
        add_token(&pattern, 1, size > 0);
    if (size < CODE_END && size > 0) {
        add_token(&pattern, 2, size > 1);
        if (size > 1)
            add_token(&pattern, 3, size > SIZE_SMALL);
        if (size > SIZE_SMALL)
            add_medium(&pattern, size);
        else if (size > 1)
            add_token(&pattern, 4, size > 2);
        if (size > 2 && size <= SIZE_SMALL)
            add_token(&pattern, 5, size > 3);
        add_token(&pattern, P_128, code >= CODE_NEGATIVE);
    }
    return pattern.tokens | (uint64_t)pattern.count << PATTERN_COUNT;
}

/* Makes the tables: a block of threads. probabilities: of the image */
SIMT void make_token_tables(struct token_tables *tables, const uint8_t *probabilities)
{
    uint32_t thread = (uint32_t)thread_index();
    if (thread < RECORD_CODES)
        tables->patterns[thread] = pattern_of(thread);
    for (uint32_t i = thread; i < CELLS * P_COUNT; i += (uint32_t)block_threads()) {
        uint32_t cell = i / P_COUNT, index = i % P_COUNT;
        tables->probabilities[cell][index] = index < CELL_PROBABILITIES
                                                 ? probabilities[cell * CELL_PROBABILITIES + index]
                                                 : (uint8_t)(P_FIXED >> 8 * (index - P_159) % 32);
    }
    block_barrier();
}

/* Tokens that a warp writes in order: aligned units of 16 bytes as soon as they are full. */
#define STAGE_TOKENS 1024
#define UNIT_TOKENS  8
/* A level has so many tokens at most. */
#define LEVEL_TOKENS_MAX 19

struct token_stage {
    words4 units[STAGE_TOKENS / UNIT_TOKENS]; /* the first has the first token to write */
};

struct token_writer {
    uint16_t *stage; /* the tokens of a struct token_stage */
    const struct token_tables *tables;
    uint16_t *to;         /* where stage[0] goes: aligned to 16 */
    uint32_t start, fill; /* in stage[] */
};

/* at: the first token, of an array aligned to 16 */
SIMT struct token_writer token_writer_at(struct token_stage *stage,
                                         const struct token_tables *tables, uint16_t *tokens,
                                         uint32_t at)
{
    struct token_writer writer;
    writer.stage = (uint16_t *)stage->units;
    writer.tables = tables;
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
    uint16_t last = (uint32_t)lane < rest ? tokens[end + (uint32_t)lane] : 0;
    writer->to += end;
    if (at_end && (uint32_t)lane >= start && (uint32_t)lane < rest)
        writer->to[lane] = last;
    warp_barrier();
    if ((uint32_t)lane < rest)
        tokens[lane] = last;
    writer->start = start;
    writer->fill = rest;
}

DEVICE uint16_t token_of(uint32_t probability, bool bit)
{
    return (uint16_t)(probability | (bit ? TOKEN_BIT : 0));
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

/* The extra bits of a large level. */
DEVICE int extra_bits(uint32_t size)
{
    int octave = highest_bit(size - 3);
    return octave < 6 ? octave : 11;
}

/* The tokens of a large level: five, two of its class, the extra bits, and the sign. */
DEVICE uint32_t large_tokens(const struct record *of, uint32_t size)
{
    return (uint32_t)(of->check + 4 + 2 + extra_bits(size) + 1);
}

/* Puts the tokens of a large level. p: the probabilities of its cell */
SIMT void put_large(uint16_t *to, const struct record *of, uint32_t size, const uint8_t *p)
{
    int bits = extra_bits(size);
    uint32_t base = bits < 6 ? 3 + (1u << bits) : 3 + 64;
    if (of->check)
        *to++ = token_of(p[0], true);
    *to++ = token_of(p[1], true);
    *to++ = token_of(p[2], true);
    *to++ = token_of(p[3], true);
    *to++ = token_of(p[6], true);
    *to++ = token_of(p[8], bits >= 5);
    *to++ = bits < 5 ? token_of(p[9], bits == 4) : token_of(p[10], bits > 5);
    for (int i = 0; i < bits; i++)
        *to++ = token_of(extra_probability(bits, i), (size - base) >> (bits - 1 - i) & 1);
    *to = token_of(128, of->level < 0);
}

/* Appends the tokens of a macroblock. count: of its records */
SIMT void put_macroblock(struct token_writer *writer, const struct webp_encode_descriptor *image,
                         uint32_t macroblock, uint32_t count)
{
    const struct token_tables *tables = writer->tables;
    const uint16_t *records = image->records + (size_t)macroblock * WEBP_LEVELS;
    for (uint32_t first = 0; first < count; first += WARP_LANES) {
        uint32_t i = first + (uint32_t)lane_index(), total;
        uint32_t bits = i < count ? records[i] : 0;
        struct record of = read_record(image, macroblock, bits);
        uint32_t size = (uint32_t)(of.level < 0 ? -of.level : of.level);
        uint64_t pattern = tables->patterns[of.code];
        uint32_t tokens = (uint32_t)(pattern >> PATTERN_COUNT) - !of.check;
        pattern >>= of.check ? 0 : PATTERN_BITS;
        tokens = bits & RECORD_LARGE ? large_tokens(&of, size) : tokens;
        uint16_t *to = writer->stage + writer->fill + warp_scan(i < count ? tokens : 0, &total);
        const uint8_t *p = tables->probabilities[of.cell];
        if (bits & RECORD_LARGE)
            put_large(to, &of, size, p);
        else if (i < count)
            for (uint32_t j = 0; j < tokens; j++, pattern >>= PATTERN_BITS)
                to[j] = token_of(p[pattern & 15], pattern >> 4 & 1);
        writer->fill += total;
        if (writer->fill > STAGE_TOKENS - WARP_LANES * LEVEL_TOKENS_MAX)
            flush_tokens(writer, false);
    }
}
