/*
 * bits.h - reads bits and Huffman symbols from the compressed data of a scan of a progressive JPEG.
 *
 * The data of a scan consists of segments, which restart markers separate. After the end of a
 * segment, a reader returns zeros and counts them. So the decoder need not check each symbol for
 * the end: it calls jpeg_bits_are_missing once after the segment.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "codecs/jpeg/frame.h"

/* ---- bits ---- */

/* A position in the data of a scan. */
struct jpeg_bits {
    const uint8_t *at, *end; /* the bytes of the scan that are not in the window yet */
    uint64_t window;         /* the next bits, the first one in the most significant bit */
    int count;               /* valid bits of the window */
    int padding;             /* bytes of zeros that were added after the end of the segment */
};

/* After jpeg_bits_fill, `count` is at least this. */
#define JPEG_BITS_FULL 56

/* Fills the window byte by byte, if one of the next bytes is 0xFF or the scan ends. */
struct jpeg_bits jpeg_bits_fill_slowly(struct jpeg_bits bits);

/* Fills the window, usually with a load of eight bytes at once. */
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
    /* This may set bits after the first `count`, too. They are right; the next call sets them. */
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

/* Returns n bits after the first `after` bits of the window, without taking them. Both numbers are
 * 0 to 63, and all of these bits must be in the window. */
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

/* Whether more bits were taken than the segment has. */
static inline bool jpeg_bits_are_missing(const struct jpeg_bits *bits)
{
    return bits->count < 8 * bits->padding;
}

/* Whether exactly the bytes of the segment were taken. `at` is then at the marker after them. */
static inline bool jpeg_bits_end(const struct jpeg_bits *bits)
{
    int left = bits->count - 8 * bits->padding;
    return left >= 0 && left < 8;
}

/* ---- symbols ---- */

/* A scan has the DC or some AC coefficients of its blocks: either their first bits, or one further
 * bit of each (a refinement). */
enum jpeg_scan_kind { JPEG_DC_FIRST, JPEG_DC_REFINE, JPEG_AC_FIRST, JPEG_AC_REFINE };

/* A table has an entry for each value of this many bits. */
#define JPEG_LOOKUP_BITS 8

/*
 * An entry describes the symbol whose code begins with these bits:
 *
 *     bits 0 to 4    number of bits of the code and of its extra bits; 0: the code is longer than
 *                    JPEG_LOOKUP_BITS, and jpeg_lookup_long finds its entry
 *     bits 8 to 11   run: number of zero coefficients before the new one
 *     bits 16 to 19  size: number of extra bits of the new coefficient, 0 if there is none
 *
 * The band of a block are the AC coefficients that the scan has. An entry that ends the band has
 * its number of extra bits, 0 to 14, in the place of the run.
 */
#define JPEG_ENTRY_SPECIAL 0x80000000u /* one of the next flags is set, or the code is longer */
#define JPEG_ENTRY_INVALID 0x40000000u
#define JPEG_ENTRY_ENDS    0x20000000u /* ends the band of this block and of some next blocks */
#define JPEG_ENTRY_ZEROS   0x10000000u /* in a JPEG_AC_FIRST scan: 16 zero coefficients */

static inline uint32_t jpeg_entry_bits(uint32_t entry) { return entry & 31; }
static inline uint32_t jpeg_entry_run(uint32_t entry) { return entry >> 8 & 15; }
static inline uint32_t jpeg_entry_size(uint32_t entry) { return entry >> 16 & 15; }

/* The Huffman table of a scan, prepared for decoding. */
struct jpeg_lookup {
    const struct jpeg_huffman *table;
    enum jpeg_scan_kind kind;
    uint32_t low;         /* Al of the scan: the lowest bit that it has */
    uint32_t limits[17];  /* by length of a code: all 16-bit words below the limit begin with a
                             code of this length or a shorter one */
    uint32_t offsets[17]; /* by length of a code: index of its symbol minus the code */
    uint32_t entries[1 << JPEG_LOOKUP_BITS];
};

/* Prepares a table, which must be valid (jpeg_fill_frame has checked it) and outlive the lookup. */
void jpeg_lookup_build(struct jpeg_lookup *lookup, const struct jpeg_huffman *table,
                       enum jpeg_scan_kind kind, uint32_t low);
/* Returns the entry of the code at the beginning of the window if it is longer than
 * JPEG_LOOKUP_BITS. */
uint32_t jpeg_lookup_long(const struct jpeg_lookup *lookup, uint64_t window);

static inline uint32_t jpeg_lookup_entry(const struct jpeg_lookup *lookup, uint64_t window)
{
    return lookup->entries[window >> (64 - JPEG_LOOKUP_BITS)];
}

/* Returns the coefficient in the extra bits of an entry (figure F.12 of ISO/IEC 10918-1); 0 if
 * there are none. The code and then the extra bits are at the beginning of the window. */
static inline int jpeg_entry_value(uint32_t entry, const struct jpeg_bits *bits)
{
    uint32_t size = jpeg_entry_size(entry), after = jpeg_entry_bits(entry) - size;
    int value = (int)jpeg_bits_peek(bits, after, size);
    int negative = (int)((bits->window << after) >> 63) - 1; /* all bits set, or none */
    return value - (((1 << size) - 1) & negative);
}

/* For an entry that ends bands: the number of blocks after this one whose bands end as well. */
static inline uint32_t jpeg_entry_blocks(uint32_t entry, const struct jpeg_bits *bits)
{
    uint32_t extra = jpeg_entry_run(entry), after = jpeg_entry_bits(entry) - extra;
    return (1u << extra) - 1 + (uint32_t)jpeg_bits_peek(bits, after, extra);
}
