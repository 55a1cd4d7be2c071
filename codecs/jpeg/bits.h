/*
 * bits.h - reads the entropy-coded data of a scan of a progressive JPEG: bits and Huffman symbols.
 *
 * After the end of a segment (a marker, or the end of the scan) a reader returns zeros and counts
 * them, so that only the end of a segment needs a check.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "codecs/jpeg/frame.h"

/* ---- bits ---- */

struct jpeg_bits {
    const uint8_t *at, *end; /* the bytes of the scan that are not in the window */
    uint64_t window;         /* the next bits, the first one in the most significant bit */
    int count;               /* valid bits of the window */
    int padding;             /* bytes of zeros that were added after the end of the segment */
};

/* After jpeg_bits_fill, `count` is at least this. */
#define JPEG_BITS_FULL 56

/* jpeg_bits_fill byte by byte: the next bytes have a 0xFF, or the scan ends. */
struct jpeg_bits jpeg_bits_fill_slowly(struct jpeg_bits bits);

static inline void jpeg_bits_fill(struct jpeg_bits *bits)
{
    const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    uint64_t next;
    if (bits->end - bits->at < (ptrdiff_t)sizeof next) {
        *bits = jpeg_bits_fill_slowly(*bits);
        return;
    }
    memcpy(&next, bits->at, sizeof next);
    if ((~next - ones) & next & tops) { /* one of the bytes is 0xFF */
        *bits = jpeg_bits_fill_slowly(*bits);
        return;
    }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    next = __builtin_bswap64(next);
#endif
    /* The bits after `count` are right, too; the next call sets them again. */
    bits->window |= next >> bits->count;
    bits->at += (63 - bits->count) / 8;
    bits->count |= JPEG_BITS_FULL;
}

/* Drops n bits, 0 to 63, which must be in the window. */
static inline void jpeg_bits_drop(struct jpeg_bits *bits, uint32_t n)
{
    bits->window <<= n;
    bits->count -= (int)n;
}

/* Returns n bits, 0 to 63, that follow the first `after` bits of the window, 0 to 63. The last one
 * must be in the window. */
static inline uint64_t jpeg_bits_peek(const struct jpeg_bits *bits, uint32_t after, uint32_t n)
{
    return bits->window << after >> 1 >> (63 - n);
}

/* Takes n bits, 0 to 63. */
static inline uint64_t jpeg_bits_take(struct jpeg_bits *bits, uint32_t n)
{
    uint64_t value = 0;
    if ((int)n > bits->count) {
        jpeg_bits_fill(bits);
        if (n > 32) {
            value = bits->window >> 32;
            jpeg_bits_drop(bits, 32);
            jpeg_bits_fill(bits);
            n -= 32;
        }
    }
    value = value << n | jpeg_bits_peek(bits, 0, n);
    jpeg_bits_drop(bits, n);
    return value;
}

/* Whether bits were taken that the segment does not have. */
static inline bool jpeg_bits_are_missing(const struct jpeg_bits *bits)
{
    return bits->count < 8 * bits->padding;
}

/* Whether all bytes of the segment were taken, and no more. `at` is then at the marker after it. */
static inline bool jpeg_bits_end(const struct jpeg_bits *bits)
{
    int left = bits->count - 8 * bits->padding;
    return left >= 0 && left < 8;
}

/* ---- symbols ---- */

enum jpeg_scan_kind { JPEG_DC_FIRST, JPEG_DC_REFINE, JPEG_AC_FIRST, JPEG_AC_REFINE };

#define JPEG_LOOKUP_BITS 8

/*
 * An entry describes a symbol and its code:
 *
 *     bits 0 to 4    bits of the code and the extra bits; 0: the code is longer than the table
 *     bits 8 to 11   run: zero coefficients before the new one
 *     bits 16 to 19  size: extra bits of the new coefficient, 0 if there is none
 *
 * An entry that ends the band has its extra bits, 0 to 14, in the place of the run.
 */
#define JPEG_ENTRY_SPECIAL 0x80000000u /* with each of the others, and if the code is longer */
#define JPEG_ENTRY_INVALID 0x40000000u
#define JPEG_ENTRY_ENDS    0x20000000u /* ends the band of this block and of the next blocks */
#define JPEG_ENTRY_ZEROS   0x10000000u /* JPEG_AC_FIRST: 16 zero coefficients */

static inline uint32_t jpeg_entry_bits(uint32_t entry) { return entry & 31; }
static inline uint32_t jpeg_entry_run(uint32_t entry) { return entry >> 8 & 15; }
static inline uint32_t jpeg_entry_size(uint32_t entry) { return entry >> 16 & 15; }

/* The Huffman table of a scan. */
struct jpeg_lookup {
    const struct jpeg_huffman *table;
    enum jpeg_scan_kind kind;
    uint32_t low;          /* Al of the scan */
    uint32_t limits[17];   /* of each length: 16-bit words below it begin with such a code, or with
                              a shorter one */
    uint32_t offsets[17];  /* of each length: index of a code's symbol minus the code */
    uint32_t entries[1 << JPEG_LOOKUP_BITS];
};

/* table: of a frame that jpeg_fill_frame has filled. The lookup borrows it. */
void jpeg_lookup_build(struct jpeg_lookup *lookup, const struct jpeg_huffman *table,
                       enum jpeg_scan_kind kind, uint32_t low);
/* Returns the entry of the code at the beginning of the window, which the table does not have. */
uint32_t jpeg_lookup_long(const struct jpeg_lookup *lookup, uint64_t window);

static inline uint32_t jpeg_lookup_entry(const struct jpeg_lookup *lookup, uint64_t window)
{
    return lookup->entries[window >> (64 - JPEG_LOOKUP_BITS)];
}

/* Returns the value of the entry's extra bits, which end its bits at the beginning of the window:
 * figure F.12 of ISO/IEC 10918-1. 0 if the size is 0. */
static inline int jpeg_entry_value(uint32_t entry, const struct jpeg_bits *bits)
{
    uint32_t size = jpeg_entry_size(entry), after = jpeg_entry_bits(entry) - size;
    int value = (int)jpeg_bits_peek(bits, after, size);
    int negative = (int)((bits->window << after) >> 63) - 1; /* all bits set, or none */
    return value - (((1 << size) - 1) & negative);
}

/* Returns the number of blocks after this one whose bands an entry ends. */
static inline uint32_t jpeg_entry_blocks(uint32_t entry, const struct jpeg_bits *bits)
{
    uint32_t extra = jpeg_entry_run(entry), after = jpeg_entry_bits(entry) - extra;
    return (1u << extra) - 1 + (uint32_t)jpeg_bits_peek(bits, after, extra);
}
