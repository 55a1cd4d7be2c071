/*
 * progressive_bits.h - the bit reader and the lookup tables with which a warp decodes a scan.
 *
 * All lanes of the warp read the same bits and keep the same state.
 */
#pragma once

#include "gpu/jpeg/progressive_impl.h"
#include "gpu/simt/simt.h"

/* ---- reader ---- */

/*
 * Reads the bits of a scan. The next bits are in the window high:low, of whose 64 bits the first 32
 * + `spare` are valid, and then in `fetched`, which was loaded ahead to hide the latency of memory.
 * If at most EARLY_BITS bits are dropped without a refill, the window still has enough bits to look
 * up a symbol. A reader does not check for the end of the scan: see SCAN_OVERRUN.
 */
struct reader {
    const uint32_t *words;
    uint32_t next; /* index of the word after `fetched` */
    uint32_t high, low, fetched;
    int spare; /* 1 to 32; less between a drop and the refill */
};

DEVICE uint32_t min_word(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Moves the reader to a position in the scan. */
SIMT void reader_seek(struct reader *reader, uint32_t bit)
{
    uint32_t index = bit / 32, shift = bit % 32;
    uint32_t a = load_reused(reader->words + index);
    uint32_t b = load_reused(reader->words + index + 1);
    reader->fetched = load_reused(reader->words + index + 2);
    reader->next = index + 3;
    reader->high = funnel_left(b, a, shift);
    reader->low = b << shift;
    reader->spare = 32 - (int)shift;
}

/* The position of the next bit. */
DEVICE uint32_t reader_position(const struct reader *reader)
{
    return (reader->next - 2) * 32 - (uint32_t)reader->spare;
}

/* Shifts the window by bits % 32 bits, without a change of `spare`. */
DEVICE void reader_shift(struct reader *reader, uint32_t bits)
{
    reader->high = funnel_left(reader->low, reader->high, bits);
    reader->low = funnel_left(0, reader->low, bits);
}

/* Refills the window after `spare` was reduced. */
SIMT void reader_fill(struct reader *reader)
{
    if (reader->spare <= 0) {
        /* `high` has 32 + spare valid bits, at least 2, and then zeros. */
        reader->high |= shift_right(reader->fetched, (uint32_t)(32 + reader->spare));
        reader->low = reader->fetched << -reader->spare;
        reader->spare += 32;
        reader->fetched = load_reused(reader->words + reader->next++);
    }
}

/* Drops 0 to 31 bits. */
SIMT void reader_drop(struct reader *reader, uint32_t bits)
{
    reader_shift(reader, bits);
    reader->spare -= (int)bits;
    reader_fill(reader);
}

/* Returns and drops the next 0 to 63 bits. */
SIMT uint64_t reader_take(struct reader *reader, int bits)
{
    uint64_t value = 0;
    while (bits > 31) {
        value = value << 31 | reader->high >> 1;
        reader_drop(reader, 31);
        bits -= 31;
    }
    value = value << bits | shift_right(reader->high, 32 - (uint32_t)bits);
    reader_drop(reader, (uint32_t)bits);
    return value;
}

/* Returns 1 to 63 bits at any position of the scan. Does not move the reader. */
SIMT uint64_t bits_at(const struct reader *reader, uint32_t bit, int bits)
{
    uint32_t index = bit / 32, shift = bit % 32;
    uint32_t a = load_reused(reader->words + index), b = load_reused(reader->words + index + 1);
    uint32_t c = load_reused(reader->words + index + 2);
    uint64_t value = (uint64_t)funnel_left(b, a, shift) << 32 | funnel_left(c, b, shift);
    return value >> (64 - bits);
}

/* ---- tables ---- */

#define LOOKUP_BITS 9
#define EARLY_BITS (33 - LOOKUP_BITS)
/* The short loops (progressive_blocks.h) decode two symbols per refill, so their symbols have at
 * most this many bits. */
#define SHORT_BITS_MAX (EARLY_BITS / 2)
#define LOOKUP_WORDS (1 << LOOKUP_BITS)
#define DC_LOOKUP_BITS 8
#define DC_LOOKUP_WORDS (1 << DC_LOOKUP_BITS)

/*
 * An entry of a lookup table describes the symbol with which the indexing bits begin:
 *
 *     byte 0          number of bits of the code and of the extra bits after it; 0: the code is
 *                     longer than the index, and find_entry must be called
 *     byte 1          run + 1: by how many coefficients the symbol advances
 *     bits 16 to 19   size: the number of bits of the value
 *     bits 20 to 23   run: the number of zero coefficients before the value
 *     bit 24          the symbol is invalid
 *     bit 25          the symbol ends the block
 *     bit 31          special: the short loop of AC scans cannot decode the symbol
 *
 * In an AC_REFINE scan, an entry that is not special has in the bits 16 to 30 a mask whose run + 1
 * lowest bits are set: the coefficients that must be zero so far, for the short loop.
 */
#define ENTRY_SPECIAL 0x80000000u
#define ENTRY_INVALID 0x01000000u
#define ENTRY_ENDS 0x02000000u
/* Longest run of the short loop of AC_REFINE. */
#define SHORT_RUN_MAX 14

DEVICE uint32_t entry_bits(uint32_t entry) { return entry & 31; }
DEVICE uint32_t entry_advance(uint32_t entry) { return entry >> 8 & 31; }
DEVICE uint32_t entry_size(uint32_t entry) { return entry >> 16 & 15; }
DEVICE uint32_t entry_run(uint32_t entry) { return entry >> 20 & 15; }
DEVICE bool entry_is_long(uint32_t entry) { return entry_bits(entry) == 0; }

/* Returns the special entry of a symbol, which has the run and the size. length: of the code; low:
 * the scan's Al. A first value with size + low > 15 does not fit into a coefficient, so its symbol
 * is invalid. */
DEVICE uint32_t make_special_entry(int kind, int low, uint32_t symbol, uint32_t length)
{
    uint32_t run = symbol >> 4, size = symbol & 15;
    bool ends = kind != DC_FIRST && size == 0 && run < 15;
    uint32_t bits = length + (kind == AC_REFINE && size ? 1 : size) + (ends ? run : 0);
    uint32_t entry = ENTRY_SPECIAL | bits | (run + 1) << 8 | size << 16 | run << 20;
    if (kind == AC_FIRST ? size + (uint32_t)low > 15 : kind == AC_REFINE && size > 1)
        entry |= ENTRY_INVALID;
    return entry | (ends ? ENTRY_ENDS : 0);
}

/* Turns a special entry into one for the short loop, if the short loop can decode the symbol.
 * Otherwise returns it unchanged. */
DEVICE uint32_t make_short_entry(int kind, uint32_t entry)
{
    if (kind == DC_FIRST || entry_size(entry) == 0 || entry_bits(entry) > SHORT_BITS_MAX ||
        entry & ENTRY_INVALID)
        return entry;
    if (kind == AC_FIRST)
        return entry & ~ENTRY_SPECIAL;
    if (entry_run(entry) > SHORT_RUN_MAX)
        return entry;
    return (entry & 0xFFFF) | ((2u << entry_run(entry)) - 1) << 16;
}

/* With this, codes that are longer than the index of the lookup table are found. */
struct code_ends {
    uint32_t limits[16];  /* per length: 16 bits below the limit begin with a code of this length or
                             a shorter one */
    uint32_t offsets[16]; /* index of a code's symbol minus the code */
};

/* Returns the special entry of the code with which the 32 bits begin; it has at least `length`
 * bits. */
SIMT uint32_t find_entry(const struct jpeg_huffman *table, const struct code_ends *ends, int kind,
                         int low, uint32_t bits, uint32_t length)
{
    uint32_t prefix = bits >> 16;
    NO_UNROLL
    while (length <= 16 && prefix >= ends->limits[length - 1])
        length++;
    if (length > 16)
        return ENTRY_SPECIAL | ENTRY_INVALID | 1 << 8 | 1;
    uint32_t index = (prefix >> (16 - length)) + ends->offsets[length - 1];
    return make_special_entry(kind, low, table->symbols[index & 255], length);
}

/* Builds a lookup table of 1 << bits words, and *ends. All lanes call it together. */
SIMT void build_table(const struct jpeg_huffman *table, int kind, int low, uint32_t *lookup,
                      int bits, struct code_ends *ends)
{
    uint32_t code = 0, index = 0;
    NO_UNROLL
    for (int length = 1; length <= 16; length++) {
        uint32_t offset = index - code, count = table->counts[length - 1];
        code += count;
        index += count;
        if (lane_index() == 0) {
            ends->limits[length - 1] = code << (16 - length);
            ends->offsets[length - 1] = offset;
        }
        code <<= 1;
    }
    warp_barrier();
    NO_UNROLL
    for (uint32_t i = (uint32_t)lane_index(); i < 1u << bits; i += WARP_LANES) {
        uint32_t entry = ENTRY_SPECIAL, prefix = i << (32 - bits);
        /* The code is not longer than the index. */
        if (prefix >> 16 < ends->limits[bits - 1])
            entry = find_entry(table, ends, kind, low, prefix, 1);
        lookup[i] = make_short_entry(kind, entry);
    }
    warp_barrier();
}

/* Returns the value that the first `size` bits of a word mean, 1 to 15: figure F.12 of
 * ISO/IEC 10918-1. */
DEVICE int extend_value(uint32_t bits, uint32_t size)
{
    int value = (int)(bits >> (32 - size));
    return (int32_t)bits < 0 ? value : value - (1 << size) + 1;
}
