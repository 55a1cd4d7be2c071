/* decode_device.h - device functions that several kernels of the JPEG decoder use. */
#pragma once

#include "gpu/jpeg/decode_impl.h"
#include "gpu/simt/simt.h"

/* Returns the image to which the block of threads `block` belongs: the last i with
 * starts[i] <= block. All lanes of a warp call it together. */
SIMT uint32_t find_image(const uint32_t *starts, uint32_t count, uint32_t block)
{
    uint32_t first = 0;
    while (count > 1) {
        uint32_t step = (count + WARP_LANES - 1) / WARP_LANES;
        uint32_t candidate = (uint32_t)lane_index() * step;
        bool before = candidate < count && load_word(starts + first + candidate) <= block;
        uint32_t skipped = (uint32_t)highest_bit(warp_ballot(before)) * step;
        first += skipped;
        count = count - skipped < step ? count - skipped : step;
    }
    return first;
}

/* Makes all later kernels skip the image, and tells the caller. */
SIMT void decline(const struct decode_descriptor *image, enum jpeg_decode_verdict verdict)
{
    image->run->verdict = (uint32_t)verdict;
    *image->verdict = (uint32_t)verdict;
}

/* Whether the image has been declined. All threads of the block call it together and get the same
 * result, although another block may decline the image meanwhile. */
SIMT bool is_declined(const struct decode_descriptor *image)
{
    return block_any(image->run->verdict != JPEG_DECODE_DONE);
}

/* A subsequence (decode_impl.h). Positions are in bits from the start of the image's words. */
struct decode_sub {
    uint32_t start, end;
    uint32_t segment, segment_end;
    bool first, last; /* of its segment */
};

/* The subsequence of sub_bits bits, or fewer, at `start` of a segment from `from` to `to`. */
DEVICE struct decode_sub sub_at(uint32_t start, uint32_t sub_bits, uint32_t segment, uint32_t from,
                                uint32_t to)
{
    struct decode_sub sub;
    sub.start = start;
    sub.segment = segment;
    sub.segment_end = to;
    sub.first = start == from;
    sub.last = to - start <= sub_bits;
    sub.end = sub.last ? to : start + sub_bits;
    return sub;
}

/* The subsequence i < run.subs. Call it after the kernel `synchronise`, which writes sub_places. */
SIMT struct decode_sub sub_of(const struct decode_descriptor *image, uint32_t data_bytes,
                              uint32_t i)
{
    uint32_t sub_bits = image->sub_words * 32;
    if (image->segments == 1)
        return sub_at(i * sub_bits, sub_bits, 0, 0, data_bytes * 8);
    uint32_t start = image->sub_places[2 * i], segment = image->sub_places[2 * i + 1];
    return sub_at(start, sub_bits, segment, image->segment_at[segment] * 8,
                  image->segment_at[segment + 1] * 8);
}

/* A segment is padded to a whole byte, so its last block ends at most this many bits before its
 * end. */
#define LATE_BITS 7

/* The bits of the subsequence for which there are records: the last LATE_BITS bits of a segment may
 * be padding. */
DEVICE int32_t walked_bits(const struct decode_sub *sub)
{
    return (int32_t)(sub->end - sub->start) - (sub->last ? LATE_BITS : 0);
}

/* The state of a decoder after a subsequence, as one word. The lower 14 bits (STATE_MASK) are what
 * the decoder of the next subsequence needs: the position of the next symbol, relative to the end
 * of the subsequence (5 bits); the index of the next coefficient (6); the number of the block in
 * its MCU (3). Then follow: whether there was a bad code (1), the blocks completed in the
 * subsequence (11), and how many of these end at most LATE_BITS bits before the end of the segment
 * (4). */
#define STATE_OFFSET_BITS 5
#define STATE_INDEX_AT 5
#define STATE_BLOCK_AT 11
#define STATE_MASK 0x3FFFu
#define STATE_BAD (1u << 14)
#define STATE_COUNT_AT 15
#define STATE_COUNT_MASK  (DECODE_SUB_BLOCKS_MAX - 1u)
#define STATE_LATE_AT     26

DEVICE uint32_t state_count(uint32_t state)
{
    return state >> STATE_COUNT_AT & STATE_COUNT_MASK;
}
DEVICE uint32_t state_late(uint32_t state) { return state >> STATE_LATE_AT & 15; }

/* The record of a piece is the state of the decoder at its start: the position of its first symbol,
 * relative to its first bit (6 bits); the index of the next coefficient (6); and the blocks
 * completed before the piece in the subsequence (11). */
#define RECORD_INDEX_AT 6
#define RECORD_COUNT_AT 12

/* counted: the blocks, shifted by RECORD_COUNT_AT. */
DEVICE uint32_t record_of(uint32_t offset, uint32_t index, uint32_t counted)
{
    return offset + (index << RECORD_INDEX_AT) + counted;
}

/* An entry of the lookup tables `single` and `longs` (decode_tables.h) describes one symbol. Its
 * bytes are, from the lowest on: the bits of its code and value; by how much it increases the index
 * of the coefficient; the bits of its code; and the bits of its value. The end of a block increases
 * the index by ENTRY_END, and bits that are no code by ENTRY_BAD or ENTRY_BAD_DC, so that the
 * resulting index shows how the block has ended: see ended_well. If bit 31 is set, the code is
 * longer than the index of the table. The entry then has the offset of its part of `longs` (16
 * bits), and 32 minus the number of bits that index this part (5, from 16).
 *
 * An entry of the table `multi` describes several symbols: their bits, and by how much all of them
 * increase the index. Its upper byte is the largest index of the first coefficient for which the
 * block does not end before the last of these symbols; with a larger one, `single` must be used. If
 * bit 31 is set, the entry is that of `single`. */
#define ENTRY_GROWTH_AT 8
#define ENTRY_CODE_AT 16
#define ENTRY_SIZE_AT 24
#define ENTRY_LIMIT_AT 24
#define ENTRY_LONG 0x80000000u
#define ENTRY_END 128
#define ENTRY_BAD 64    /* an AC coefficient: the index before is not 0 */
#define ENTRY_BAD_DC 65

DEVICE uint32_t entry_bits(uint32_t entry) { return entry & 255; }
DEVICE uint32_t entry_growth(uint32_t entry) { return entry >> ENTRY_GROWTH_AT & 255; }

/* Add entry_bits and entry_growth with one instruction. */
DEVICE uint32_t add_bits(uint32_t entry, uint32_t at) { return dot_unsigned(entry, 1, at); }
DEVICE uint32_t add_growth(uint32_t entry, uint32_t index)
{
    return dot_unsigned(entry, 1 << ENTRY_GROWTH_AT, index);
}

/* Blocks have ended well if the least of the results of this function for their indices at the end
 * is at least ENDED_WELL: 64, or an index above ENTRY_END. Others have a bad code, or coefficients
 * above 63. */
DEVICE uint32_t ending(uint32_t index) { return index - 65; }
#define ENDED_WELL (ENTRY_END - 65)
