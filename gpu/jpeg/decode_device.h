/* decode_device.h - device functions that several kernels of the decoder use. */
#pragma once

#include "gpu/jpeg/decode_impl.h"
#include "gpu/jpeg/simt.h"

/* Index of the image that the block of threads belongs to: the last i with starts[i] <= block. All
 * lanes of a warp call it. */
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

SIMT void decline(const struct decode_descriptor *image, enum jpeg_decode_verdict verdict)
{
    image->run->verdict = (uint32_t)verdict;
    *image->verdict = (uint32_t)verdict;
}

/* Whether the image has been declined. The same for all threads of the block, which call it
 * together, although another block may decline the image meanwhile. */
SIMT bool is_declined(const struct decode_descriptor *image)
{
    return block_any(image->run->verdict != JPEG_DECODE_DONE);
}

/* Where a subsequence is, in bits of the data. */
struct decode_sub {
    uint32_t start, end;
    uint32_t segment, segment_end;
    bool first, last; /* of its segment */
};

DEVICE struct decode_sub sub_at(uint32_t start, uint32_t segment, uint32_t from, uint32_t to)
{
    struct decode_sub sub;
    sub.start = start;
    sub.segment = segment;
    sub.segment_end = to;
    sub.first = start == from;
    sub.last = to - start <= DECODE_SUB_BITS;
    sub.end = sub.last ? to : start + DECODE_SUB_BITS;
    return sub;
}

/* For i < run.subs, after the places are known. */
SIMT struct decode_sub sub_of(const struct decode_descriptor *image, uint32_t data_bytes,
                              uint32_t i)
{
    if (image->segments == 1)
        return sub_at(i * DECODE_SUB_BITS, 0, 0, data_bytes * 8);
    uint32_t start = image->sub_places[2 * i], segment = image->sub_places[2 * i + 1];
    return sub_at(start, segment, image->segment_at[segment] * 8,
                  image->segment_at[segment + 1] * 8);
}

/* The last block of a segment ends in its last 8 bits: after this many bits before the end. */
#define LATE_BITS 7

/* Bits of the subsequence that have records: those in which a symbol must start. */
DEVICE int32_t walked_bits(const struct decode_sub *sub)
{
    return (int32_t)(sub->end - sub->start) - (sub->last ? LATE_BITS : 0);
}

/* The state after a subsequence: the position of the next symbol after its end (5 bits), the index
 * of the next coefficient (6), the number of the block in the MCU (3), whether there was a bad code
 * (1), blocks completed (10), and how many of them end in the last 8 bits of the segment (4). */
#define STATE_OFFSET_BITS 5
#define STATE_INDEX_AT 5
#define STATE_BLOCK_AT 11
#define STATE_MASK 0x3FFFu
#define STATE_BAD (1u << 14)
#define STATE_COUNT_AT 15
#define STATE_LATE_AT 25

DEVICE uint32_t state_count(uint32_t state) { return state >> STATE_COUNT_AT & 1023; }
DEVICE uint32_t state_late(uint32_t state) { return state >> STATE_LATE_AT & 15; }

/* The record of a piece: the position of its first symbol after its first bit (6 bits), the index
 * of the next coefficient (6), and blocks completed before it in the subsequence (10). */
#define RECORD_INDEX_AT 6
#define RECORD_COUNT_AT 12

DEVICE uint32_t record_of(uint32_t offset, uint32_t index, uint32_t count)
{
    return offset | index << RECORD_INDEX_AT | count << RECORD_COUNT_AT;
}

/* An entry of a lookup table: bits of code and value (5), by how much the index of the coefficient
 * grows (9 bits, at 6), bits of the code (5, at 16), bits of the value (4, at 24). The index grows
 * by ENTRY_END at the end of a block and by ENTRY_BAD for bits that are no code, so that each kind
 * of end is recognised from its sum. The entry of a prefix of longer codes has bit 31 set, the
 * offset of its second lookup (16 bits) and 32 - the bits that index it (5, at 16).
 *
 * An entry of a group of symbols: bits (5), the growth of the index (9 bits, at 6), the growth
 * before the last symbol (6, at 16). If bit 31 is set, there is no group. */
#define ENTRY_GROWTH_AT 6
#define ENTRY_GROWTH_MASK 511
#define ENTRY_CODE_AT 16
#define ENTRY_SIZE_AT 24
#define ENTRY_LONG 0x80000000u
#define ENTRY_END 128
#define ENTRY_BAD 256

DEVICE uint32_t entry_bits(uint32_t entry) { return entry & 31; }
DEVICE uint32_t entry_growth(uint32_t entry)
{
    return entry >> ENTRY_GROWTH_AT & ENTRY_GROWTH_MASK;
}

/* Whether a block that ended with this index has neither a bad code nor an index above 63. */
DEVICE bool ended_well(uint32_t index) { return index == 64 || (index & ENTRY_END) != 0; }
