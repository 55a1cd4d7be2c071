/*
 * decode_tables.h - builds the lookup tables with which the device decodes Huffman codes.
 *
 * Each Huffman table of a file becomes three lookup tables. `single` is indexed by the next
 * DECODE_LOOKUP_BITS bits, and has the symbol with which they begin; `longs` has the symbols of
 * longer codes. `multi` has as many symbols as the bits contain completely; it serves the stage
 * huffman, which needs only the symbols' lengths. A block of threads builds the lookup tables of
 * one Huffman table. In memory, a set has all tables `single`, then all tables `multi`, then all
 * tables `longs`.
 */
#pragma once

#include "gpu/jpeg/decode_device.h"

#define CODE_BITS_MAX 16

/* A Huffman table in shared memory. */
struct code_table {
    struct jpeg_huffman file;
    uint32_t limits[CODE_BITS_MAX + 1]; /* codes of b bits, followed by zeros to 16 bits, are below
                                           limits[b] and not below limits[b - 1] */
    int32_t offsets[CODE_BITS_MAX + 1]; /* of the symbols, minus the first code */
};

/* All threads of the block call it. */
SIMT void load_code_table(const struct jpeg_huffman *from, struct code_table *to)
{
    uint32_t code = 0, symbols = 0;
    for (uint32_t i = (uint32_t)thread_index(); i < sizeof *from; i += (uint32_t)block_threads())
        ((uint8_t *)&to->file)[i] = ((const uint8_t *)from)[i];
    block_barrier();
    if (thread_index() == 0) {
        to->limits[0] = 0;
        to->offsets[0] = 0;
        for (int bits = 1; bits <= CODE_BITS_MAX; bits++) {
            uint32_t count = to->file.counts[bits - 1];
            to->offsets[bits] = (int32_t)symbols - (int32_t)code;
            code += count;
            symbols += count;
            to->limits[bits] = code << (CODE_BITS_MAX - bits);
            code <<= 1;
        }
    }
    block_barrier();
}

/* Returns the length of the code with which these 16 bits begin; CODE_BITS_MAX + 1: of none. By
 * bisection, because the limits do not decrease. */
SIMT uint32_t code_length(const struct code_table *table, uint32_t bits16)
{
    uint32_t below = 0; /* the code is longer */
    UNROLL
    for (uint32_t step = CODE_BITS_MAX / 2; step > 0; step /= 2)
        below += bits16 >= table->limits[below + step] ? step : 0;
    return below + 1 + (bits16 >= table->limits[below + 1]);
}

/* length: of the code with which the bits begin. */
SIMT uint32_t entry_of(const struct code_table *table, uint32_t bits16, uint32_t length, bool dc)
{
    uint32_t growth;
    if (length > CODE_BITS_MAX)
        return CODE_BITS_MAX | (dc ? ENTRY_BAD_DC : ENTRY_BAD) << ENTRY_GROWTH_AT |
               CODE_BITS_MAX << ENTRY_CODE_AT;
    int32_t at = table->offsets[length] + (int32_t)(bits16 >> (CODE_BITS_MAX - length));
    uint32_t symbol = table->file.symbols[at & 255], size = symbol & 15, run = symbol >> 4;
    if (dc)
        growth = 1;
    else
        growth = size > 0 ? run + 1 : run == 15 ? 16 : ENTRY_END;
    return (length + size) | growth << ENTRY_GROWTH_AT | length << ENTRY_CODE_AT |
           size << ENTRY_SIZE_AT;
}

/* Fills `single`, and `longs` from the index long_at on, unless longs is NULL. All threads of the
 * block call it. */
SIMT void fill_lookup(const struct code_table *table, bool dc, uint32_t *single, uint32_t *longs,
                      uint32_t long_at)
{
    enum { rest_bits = CODE_BITS_MAX - DECODE_LOOKUP_BITS };
    SHARED uint32_t sums[WARP_LANES];
    SHARED uint16_t long_bits[DECODE_LONG_MAX];
    uint32_t threads = (uint32_t)block_threads(), thread = (uint32_t)thread_index();
    uint32_t long_count = 0;
    for (uint32_t first = 0; first < DECODE_LOOKUP; first += threads) {
        uint32_t index = first + thread, total;
        uint32_t low = index << rest_bits, high = low | ((1u << rest_bits) - 1);
        uint32_t shortest = code_length(table, low), extra = 0;
        if (shortest > DECODE_LOOKUP_BITS && shortest <= CODE_BITS_MAX) {
            uint32_t longest = code_length(table, high);
            extra = (longest > CODE_BITS_MAX ? CODE_BITS_MAX : longest) - DECODE_LOOKUP_BITS;
        }
        uint32_t at = long_count + block_scan(extra ? 1u << extra : 0, &total, sums);
        single[index] = extra ? ENTRY_LONG | (32 - extra) << ENTRY_CODE_AT | (long_at + at)
                              : entry_of(table, low, shortest, dc);
        for (uint32_t i = 0; extra && i < 1u << extra && at + i < DECODE_LONG_MAX; i++)
            long_bits[at + i] = (uint16_t)(low | i << (rest_bits - extra));
        long_count += total;
        block_barrier();
    }
    long_count = longs ? long_count : 0;
    for (uint32_t i = thread; i < long_count && i < DECODE_LONG_MAX; i += threads)
        longs[long_at + i] = entry_of(table, long_bits[i], code_length(table, long_bits[i]), dc);
}

/* Returns the entry of `multi` for the bits `index`. first, then: the tables `single` of the first
 * symbol, and of the symbols after it. */
SIMT uint32_t multi_of(const uint32_t *first, const uint32_t *then, uint32_t index)
{
    enum { growth_max = 40 };
    uint32_t entry = first[index], bits = entry_bits(entry), growth = entry_growth(entry);
    uint32_t before = 0;
    if (entry & ENTRY_LONG)
        return entry;
    while (growth < growth_max && bits < DECODE_LOOKUP_BITS) {
        uint32_t next = then[index << bits & (DECODE_LOOKUP - 1)];
        if (next & ENTRY_LONG || entry_growth(next) == ENTRY_BAD ||
            bits + entry_bits(next) > DECODE_LOOKUP_BITS)
            break;
        before = growth;
        growth += entry_growth(next);
        bits += entry_bits(next);
    }
    return bits | growth << ENTRY_GROWTH_AT | (63 - before) << ENTRY_LIMIT_AT;
}

/* Builds the lookup tables of Huffman table `index` of the set. In `multi`, the symbols after the
 * first one are AC symbols, so a DC table is combined with the AC table after it. */
SIMT void build_table(const struct decode_table_set *set, uint32_t index)
{
    SHARED struct code_table own, then;
    SHARED uint32_t single[DECODE_LOOKUP], single_then[DECODE_LOOKUP];
    uint32_t *multi = set->to + DECODE_SINGLE_WORDS, *longs = multi + DECODE_SINGLE_WORDS;
    bool dc = index % 2 == 0;
    if (index >= set->count)
        return;
    load_code_table(&set->huffman[index], &own);
    fill_lookup(&own, dc, single, longs, index * DECODE_LONG_MAX);
    if (dc) {
        load_code_table(&set->huffman[index + 1], &then);
        fill_lookup(&then, false, single_then, NULL, 0);
    }
    for (uint32_t i = (uint32_t)thread_index(); i < DECODE_LOOKUP; i += (uint32_t)block_threads()) {
        set->to[index * DECODE_LOOKUP + i] = single[i];
        multi[index * DECODE_LOOKUP + i] = multi_of(single, dc ? single_then : single, i);
    }
}
