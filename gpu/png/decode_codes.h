/*
 * decode_codes.h - the Huffman codes of deflate's blocks, as tables that a block of threads builds
 * in shared memory.
 *
 * A code's first bits index a table. Codes with more bits, which are rare, are compared with the
 * limits of each length: codes of one length are consecutive numbers, in the order of their
 * symbols, and those of a longer length follow.
 */
#pragma once

#include "gpu/simt/simt.h"

#define INFLATE_THREADS 128
#define INFLATE_WARPS   (INFLATE_THREADS / WARP_LANES)

#define CODE_BITS_MAX 15
#define LITERAL_BITS  11 /* index the table of literals and lengths */
#define DISTANCE_BITS 8  /* index the table of distances */
#define LENGTH_BITS   7  /* the longest code of the lengths of codes */
/* The table of distances is after the one of literals and lengths. */
#define DISTANCES_AT     (1 << LITERAL_BITS)
#define LITERAL_SYMBOLS  286
#define DISTANCE_SYMBOLS 30
#define LENGTH_SYMBOLS   19
/* The fixed codes also have codes for symbols that must not occur. */
#define FIXED_LITERALS  288
#define FIXED_DISTANCES 32
#define CODE_CHUNKS     (FIXED_LITERALS / WARP_LANES)
#define END_OF_BLOCK    256

/* An entry of a table describes what the next bits begin with. 0: a longer code, or none. No flag:
 * the code of a symbol that must not occur.
 *     bits 0 to 4     all bits: of the code or of two codes, and the extra bits
 *     bits 5 to 7     one of the flags but ENTRY_PAIR
 *     bits 8 to 11    the bits of the code; ENTRY_PAIR: of the first code
 *     bit 12          ENTRY_PAIR
 *     bits 16 to 31   one or two literals; or the base of the length or distance */
#define ENTRY_LITERAL 0x20u
#define ENTRY_END     0x40u
#define ENTRY_VALUE   0x80u /* a length or a distance */
#define ENTRY_PAIR    0x1000u

struct code {
    uint32_t limits[CODE_BITS_MAX + 1]; /* per length: after its codes, as a number of
                                           CODE_BITS_MAX bits */
    int32_t deltas[CODE_BITS_MAX + 1];  /* per length: from a code to its index in `entries` */
};

enum code_kind { CODE_OF_LENGTHS, CODE_OF_LITERALS, CODE_OF_DISTANCES };

struct inflate_codes {
    uint32_t tables[DISTANCES_AT + (1 << DISTANCE_BITS)];
    struct code literals, distances;
    /* The symbols of a code in the order of their codes. Those of distances are last. */
    uint32_t entries[FIXED_LITERALS + FIXED_DISTANCES];
    /* For building them: */
    uint16_t counts[CODE_CHUNKS][CODE_BITS_MAX + 1], starts[CODE_BITS_MAX + 1];
    uint8_t lengths[FIXED_LITERALS + FIXED_DISTANCES]; /* of the codes of all symbols */
    bool is_valid;
};

/* ---- bits ---- */

/* Reads bits of words in shared memory. */
struct reader {
    const uint32_t *words;
    uint32_t at;        /* position of the next bit */
    uint32_t low, high; /* the word that has it, and the next word */
};

DEVICE struct reader reader_at(const uint32_t *words, uint32_t at)
{
    struct reader reader = {words, at, words[at / 32], words[at / 32 + 1]};
    return reader;
}

/* The next 32 bits. */
DEVICE uint32_t reader_bits(const struct reader *reader)
{
    return funnel_right(reader->low, reader->high, reader->at);
}

/* The word after those of the reader. */
DEVICE uint32_t reader_ahead(const struct reader *reader)
{
    return reader->words[reader->at / 32 + 2];
}

/* ahead: from reader_ahead, perhaps long before `bits` was known. */
DEVICE void reader_move(struct reader *reader, uint32_t bits, uint32_t ahead) /* at most 32 */
{
    uint32_t then = reader->at + bits;
    if ((reader->at ^ then) & 32) {
        reader->low = reader->high;
        reader->high = ahead;
    }
    reader->at = then;
}

DEVICE void reader_skip(struct reader *reader, uint32_t bits)
{
    reader_move(reader, bits, reader_ahead(reader));
}

DEVICE uint32_t low_bits(uint32_t value, uint32_t bits) /* bits: at most 31 */
{
    return value & ~(~0u << bits);
}

DEVICE uint32_t reader_take(struct reader *reader, uint32_t bits)
{
    uint32_t value = low_bits(reader_bits(reader), bits);
    reader_skip(reader, bits);
    return value;
}

/* ---- symbols ---- */

DEVICE uint32_t literal_entry(uint32_t symbol, uint32_t bits)
{
    if (symbol < END_OF_BLOCK)
        return symbol << 16 | bits << 8 | ENTRY_LITERAL | bits;
    if (symbol == END_OF_BLOCK)
        return bits << 8 | ENTRY_END | bits;
    if (symbol >= LITERAL_SYMBOLS)
        return bits;
    uint32_t i = symbol - 257, extra = i < 8 || i == 28 ? 0 : i / 4 - 1;
    uint32_t base = i < 8 ? 3 + i : i == 28 ? 258 : ((4 + i % 4) << extra) + 3;
    return base << 16 | bits << 8 | ENTRY_VALUE | (bits + extra);
}

DEVICE uint32_t distance_entry(uint32_t symbol, uint32_t bits)
{
    if (symbol >= DISTANCE_SYMBOLS)
        return bits;
    uint32_t extra = symbol < 4 ? 0 : symbol / 2 - 1;
    uint32_t base = symbol < 4 ? symbol + 1 : ((2 + symbol % 2) << extra) + 1;
    return base << 16 | bits << 8 | ENTRY_VALUE | (bits + extra);
}

/* The length or distance of an entry. bits: from the start of its code on. */
DEVICE uint32_t entry_value(uint32_t entry, uint32_t bits)
{
    return (entry >> 16) + (low_bits(bits, entry & 31) >> (entry >> 8 & 15));
}

/* An entry of the code of lengths of codes:
 *     bits 0 to 4     all bits
 *     bits 8 to 11    the bits of the code
 *     bits 12 to 15   how often the length is repeated, without the number in the extra bits
 *     bits 16 to 31   the symbol: a length; REPEAT_LAST; or greater, which repeats 0 */
#define REPEAT_LAST 16
DEVICE uint32_t length_entry(uint32_t symbol, uint32_t bits)
{
    uint32_t extra = symbol < 16 ? 0 : symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
    uint32_t times = symbol < 16 ? 1 : symbol < 18 ? 3 : 11;
    return symbol << 16 | times << 12 | bits << 8 | (bits + extra);
}

DEVICE uint32_t entry_of(enum code_kind kind, uint32_t symbol, uint32_t bits)
{
    return kind == CODE_OF_LENGTHS    ? length_entry(symbol, bits)
           : kind == CODE_OF_LITERALS ? literal_entry(symbol, bits)
                                      : distance_entry(symbol, bits);
}

/* Returns the entry of the code of `first` to `last` bits that `bits` begin with, or 0. There are
 * no shorter codes that they begin with. first, last: constants. */
DEVICE uint32_t find_entry(const struct inflate_codes *codes, const struct code *code,
                           uint32_t bits, uint32_t first, uint32_t last)
{
    uint32_t number = reverse_bits(bits) >> (32 - CODE_BITS_MAX), length = first;
    UNROLL
    for (uint32_t i = first; i <= last; i++)
        length += number >= code->limits[i];
    if (length > last)
        return 0;
    return codes->entries[(int32_t)(number >> (CODE_BITS_MAX - length)) + code->deltas[length]];
}

/* ---- building codes ---- */

/* The lanes whose `length` is `wanted`. Both are below 16. */
SIMT uint32_t lanes_with(uint32_t length, uint32_t wanted)
{
    uint32_t same = ~0u;
    UNROLL
    for (int bit = 0; bit < 4; bit++) {
        uint32_t lanes = warp_ballot((length >> bit & 1) != 0);
        same &= wanted >> bit & 1 ? lanes : ~lanes;
    }
    return same;
}

DEVICE uint32_t length_of(const uint8_t *lengths, uint32_t symbols, uint32_t symbol)
{
    return symbol < symbols ? lengths[symbol] : 0;
}

DEVICE uint32_t first_entry(enum code_kind kind)
{
    return kind == CODE_OF_DISTANCES ? FIXED_LITERALS : 0;
}

/* Sets the limits and deltas from the counts of all chunks. Returns false if zlib refuses the code:
 * too many codes, or too few. One code of one bit, or none, may be all of a code of literals or
 * distances. All lanes of a warp call it together; lane N sets those of N bits. */
SIMT bool place_codes(struct inflate_codes *codes, struct code *code, enum code_kind kind)
{
    enum { space = 1 << CODE_BITS_MAX };
    uint32_t bits = (uint32_t)lane_index(), count = 0, shift = 0, all, total;
    if (bits <= CODE_BITS_MAX) {
        shift = CODE_BITS_MAX - bits;
        UNROLL
        for (int chunk = 0; chunk < CODE_CHUNKS; chunk++) {
            uint32_t in_chunk = codes->counts[chunk][bits];
            codes->counts[chunk][bits] = (uint16_t)count;
            count += in_chunk;
        }
    }
    if (bits == 0) /* symbols without a code */
        count = 0;
    uint32_t below = warp_scan(count << shift, &all);
    uint32_t before = first_entry(kind) + warp_scan(count, &total);
    bool has_long = warp_any(bits > 1 && count > 0);
    if (bits <= CODE_BITS_MAX) {
        code->limits[bits] = below + (count << shift);
        code->deltas[bits] = (int32_t)before - (int32_t)(below >> shift);
        codes->starts[bits] = (uint16_t)before;
    }
    return all == space || (all < space && kind != CODE_OF_LENGTHS && !has_long);
}

/* Makes the code of `symbols` symbols from their lengths. Returns whether it is valid. All threads
 * of the block call it together, after a barrier. */
SIMT bool make_code(struct inflate_codes *codes, struct code *code, const uint8_t *lengths,
                    uint32_t symbols, enum code_kind kind)
{
    uint32_t lane = (uint32_t)lane_index(), warp = (uint32_t)thread_index() / WARP_LANES;
    for (uint32_t chunk = warp; chunk < CODE_CHUNKS; chunk += INFLATE_WARPS) {
        uint32_t length = length_of(lengths, symbols, chunk * WARP_LANES + lane);
        uint32_t count = (uint32_t)count_bits(lanes_with(length, lane % 16));
        if (lane <= CODE_BITS_MAX)
            codes->counts[chunk][lane] = (uint16_t)count;
    }
    block_barrier();
    if (warp == 0) {
        bool is_valid = place_codes(codes, code, kind);
        if (lane == 0)
            codes->is_valid = is_valid;
    }
    block_barrier();
    if (!codes->is_valid)
        return false;
    for (uint32_t chunk = warp; chunk < CODE_CHUNKS; chunk += INFLATE_WARPS) {
        uint32_t symbol = chunk * WARP_LANES + lane;
        uint32_t length = length_of(lengths, symbols, symbol), same = lanes_with(length, length);
        if (length > 0)
            codes->entries[codes->starts[length] + codes->counts[chunk][length] +
                           (uint32_t)count_bits(same & ~(~0u << lane))] =
                entry_of(kind, symbol, length);
    }
    block_barrier();
    return true;
}

/* Fills both tables, without pairs. */
SIMT void fill_singles(struct inflate_codes *codes)
{
    uint32_t thread = (uint32_t)thread_index();
    for (uint32_t i = thread; i < 1 << LITERAL_BITS; i += INFLATE_THREADS)
        codes->tables[i] = find_entry(codes, &codes->literals, i, 1, LITERAL_BITS);
    for (uint32_t i = thread; i < 1 << DISTANCE_BITS; i += INFLATE_THREADS)
        codes->tables[DISTANCES_AT + i] = find_entry(codes, &codes->distances, i, 1, DISTANCE_BITS);
}

/* The entry for an index, with a pair if it has one. */
SIMT uint32_t pair_entry(const struct inflate_codes *codes, uint32_t index)
{
    uint32_t first = codes->tables[index], second = codes->tables[index >> (first >> 8 & 15)];
    uint32_t bits = (first >> 8 & 15) + (second >> 8 & 15);
    /* The bits that the index lacks are zeros, so the second code may be longer than it has. */
    if ((first & second & ENTRY_LITERAL) == 0 || bits > LITERAL_BITS)
        return first;
    return (second & 0xFF0000) << 8 | (first & 0xFF0F00) | ENTRY_LITERAL | ENTRY_PAIR | bits;
}

/* Fills both tables. All threads of the block call it together, after a barrier. */
SIMT void fill_tables(struct inflate_codes *codes)
{
    uint32_t thread = (uint32_t)thread_index();
    fill_singles(codes);
    block_barrier();
    /* The second code's index is less than half of the pair's. */
    for (uint32_t half = (1 << LITERAL_BITS) / 2; half >= INFLATE_THREADS; half /= 2) {
        for (uint32_t i = half + thread; i < 2 * half; i += INFLATE_THREADS)
            codes->tables[i] = pair_entry(codes, i);
        block_barrier();
    }
    uint32_t entry = pair_entry(codes, thread);
    block_barrier();
    codes->tables[thread] = entry;
    block_barrier();
}
