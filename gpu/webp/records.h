/*
 * records.h - makes records of the levels of a macroblock (tokens.h), and counts them: a warp per
 * macroblock, a lane per block.
 */
#pragma once

#include "gpu/webp/tokens.h"

/* ---- blocks ---- */

/* A lane's block. */
struct block_lane {
    bool present;
    uint32_t type, first, context; /* first: index of the first level */
    uint32_t words[8];             /* its levels */
    int last;                      /* index of the last level that is not 0, or -1 */
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

/* Sets what does not depend on the levels. Returns whether the block has levels. */
SIMT bool place_block(struct block_lane *of, const struct webp_encode_descriptor *image,
                      uint32_t macroblock)
{
    uint32_t columns = image->columns, x = macroblock % columns, y = macroblock / columns;
    uint32_t lane = (uint32_t)lane_index(), dc = 0;
    const struct webp_luma *luma = image->luma + macroblock;
    const webp_chroma *chroma = image->chroma + macroblock;
    uint32_t is_16x16 = luma->is_16x16, nonzero = luma->nonzero, uv = *chroma & 255;
    uint32_t above = y > 0 ? luma[-(int)columns].nonzero : 0, left = x > 0 ? luma[-1].nonzero : 0;
    uint32_t uv_above = y > 0 ? chroma[-(int)columns] : 0, uv_left = x > 0 ? chroma[-1] : 0;
    if (is_16x16)
        dc = dc_context(luma, x, 1) + dc_context(luma, y, columns);
    uint32_t full = (nonzero >> 24 & is_16x16) | (nonzero & 0xFFFF) << 1 | uv << CHROMA_BLOCK;
    of->present = lane < BLOCKS && (lane > 0 || is_16x16);
    of->type = type_of(lane, is_16x16);
    of->first = of->type == LUMA_AC;
    of->context = dc;
    if (lane >= CHROMA_BLOCK) {
        uint32_t b = lane - CHROMA_BLOCK;
        of->context = ((b & 2 ? uv >> (b - 2) : uv_above >> (b + 2)) & 1) +
                      ((b & 1 ? uv >> (b - 1) : uv_left >> (b + 1)) & 1);
    } else if (lane > 0) {
        uint32_t b = lane - 1;
        of->context = ((b >= 4 ? nonzero >> (b - 4) : above >> (b + 12)) & 1) +
                      ((b % 4 > 0 ? nonzero >> (b - 1) : left >> (b + 3)) & 1);
    }
    return of->present && (full >> lane & 1);
}

SIMT void load_block(struct block_lane *of, const struct webp_encode_descriptor *image,
                     uint32_t macroblock)
{
    words4 low = {0, 0, 0, 0}, high = {0, 0, 0, 0};
    if (place_block(of, image, macroblock)) {
        const int16_t *levels =
            image->levels + (size_t)macroblock * WEBP_LEVELS + (size_t)lane_index() * BLOCK_LEVELS;
        low = load_words4(levels);
        high = load_words4(levels + BLOCK_LEVELS / 2);
    }
    of->words[0] = of->first ? low.x & 0xFFFF0000 : low.x;
    of->words[1] = low.y;
    of->words[2] = low.z;
    of->words[3] = low.w;
    of->words[4] = high.x;
    of->words[5] = high.y;
    of->words[6] = high.z;
    of->words[7] = high.w;
    of->last = -1;
    UNROLL
    for (int i = 0; i < 8; i++)
        if (of->words[i])
            of->last = 2 * i + (of->words[i] >> 16 ? 1 : 0);
}

/* ---- records ---- */

/* Copies of counters, so that fewer lanes wait for each other. */
#define COUNT_COPIES 4
/* Larger levels have the tokens of this one. */
#define SIZE_TABLE 67

/* What count_tokens shares in a block of threads. */
struct record_tables {
    uint32_t counts[COUNT_COPIES][CELLS * CLASSES]; /* of levels of each class, and ends */
    uint8_t tokens[SIZE_TABLE + 1]; /* of a level of this size, without the first one */
    uint8_t classes[SIZE_TABLE + 1];
};

/* The records of a warp's macroblock. */
struct record_stage {
    uint32_t pairs[WEBP_LEVELS / 2];
};

SIMT void make_record_tables(struct record_tables *tables)
{
    uint32_t thread = (uint32_t)thread_index(), threads = (uint32_t)block_threads();
    for (uint32_t i = thread; i < COUNT_COPIES * CELLS * CLASSES; i += threads)
        (&tables->counts[0][0])[i] = 0;
    for (uint32_t size = thread; size <= SIZE_TABLE; size += threads) {
        /* 5 bits per class: 1, 3, 5, 6, 6, 7, 8, 10, 11, 12, 18. */
        const uint64_t counts = 1 | 3 << 5 | 5 << 10 | 6 << 15 | 6 << 20 | 7 << 25 | 8ull << 30 |
                                10ull << 35 | 11ull << 40 | 12ull << 45 | 18ull << 50;
        uint32_t class_index = class_of(size);
        tables->classes[size] = (uint8_t)class_index;
        tables->tokens[size] = (uint8_t)(counts >> 5 * class_index & 31);
    }
    block_barrier();
}

/* Counts the level of index `n` of the lane's block, and puts its record. Returns the number of its
 * tokens. */
SIMT uint32_t put_record(struct block_lane *of, int n, struct record_tables *tables, uint16_t *to)
{
    uint32_t pair = of->words[n / 2], context = of->context;
    int level = (int16_t)(n % 2 ? pair >> 16 : pair);
    uint32_t size = (uint32_t)(level < 0 ? -level : level);
    uint32_t cell = cell_of(of->type, band_of((uint32_t)n), context);
    uint32_t index = size < SIZE_TABLE ? size : SIZE_TABLE;
    bool check = context > 0 || (uint32_t)n == of->first;
    uint32_t code = size | (level < 0 ? CODE_NEGATIVE : 0);
    uint32_t record = cell | code << RECORD_CODE | (check ? RECORD_CHECK : 0);
    if (size >= SIZE_WITH_EXTRA)
        record =
            RECORD_LARGE | context << RECORD_CONTEXT | (uint32_t)(lane_index() * BLOCK_LEVELS + n);
    *to = (uint16_t)record;
    (void)atomic_add(
        &tables->counts[lane_index() % COUNT_COPIES][cell * CLASSES + tables->classes[index]], 1);
    of->context = size < 2 ? size : 2;
    return tables->tokens[index] + check;
}

/* Counts the end of the lane's block, and puts its record. */
SIMT void put_end(const struct block_lane *of, struct record_tables *tables, uint16_t *to)
{
    uint32_t next = of->last < 0 ? of->first : (uint32_t)of->last + 1;
    uint32_t cell = cell_of(of->type, band_of(next), of->context);
    (void)atomic_add(&tables->counts[lane_index() % COUNT_COPIES][cell * CLASSES + CLASS_END], 1);
    *to = (uint16_t)(cell | CODE_END << RECORD_CODE | RECORD_CHECK);
}

/* Makes the records of a macroblock, and counts them. Returns token_counts[] of it. */
SIMT uint32_t count_macroblock(struct record_tables *tables, struct record_stage *stage,
                               const struct webp_encode_descriptor *image, uint32_t macroblock)
{
    struct block_lane block;
    uint32_t tokens = 0, records = 0, total;
    load_block(&block, image, macroblock);
    bool ends = block.present && block.last < BLOCK_LEVELS - 1;
    if (block.last >= 0)
        records = (uint32_t)block.last + 1 - block.first;
    uint16_t *to = (uint16_t *)stage->pairs + warp_scan(records + ends, &total);
    int last = (int)warp_max((uint32_t)(block.last + 1)) - 1;
    UNROLL
    for (int n = 0; n < BLOCK_LEVELS; n++) {
        if (n > last)
            break;
        if (n >= (int)block.first && n <= block.last)
            tokens += put_record(&block, n, tables, to + n - (int)block.first);
    }
    if (ends)
        put_end(&block, tables, to + records);
    tokens = warp_sum(tokens + ends);
    if (lane_index() == 0 && total % 2 > 0)
        ((uint16_t *)stage->pairs)[total] = 0;
    warp_barrier();
    uint32_t *pairs = (uint32_t *)(image->records + (size_t)macroblock * WEBP_LEVELS);
    for (uint32_t i = (uint32_t)lane_index(); i * 2 < total; i += WARP_LANES)
        pairs[i] = stage->pairs[i];
    warp_barrier();
    return tokens | total << COUNT_RECORDS | (has_levels(image, macroblock) ? 0 : COUNT_SKIPPED);
}
