/*
 * progressive_blocks.h - decodes the blocks of the AC scans of progressive JPEGs.
 *
 * All lanes of a warp call the functions together, and keep the same state. Most symbols are
 * decoded in short loops, which handle only usual symbols: those with short codes that do not end
 * the block.
 */
#pragma once

#include "gpu/jpeg/coefficients.h"
#include "gpu/jpeg/progressive_bits.h"
#include "gpu/jpeg/progressive_impl.h"
#include "gpu/simt/simt.h"

#define GROUP JPEG_GROUP_BLOCKS
#define TOKENS 128
#define DC_TABLES JPEG_COMPONENTS_MAX
#define MCU_BLOCKS_MAX 8 /* 2 x 2 blocks of Y, and one of Cb and of Cr */

/* The shared memory of a warp. */
struct warp_memory {
    uint32_t lookup[DC_TABLES * DC_LOOKUP_WORDS]; /* an AC scan has one table of LOOKUP_WORDS */
    struct code_ends ends[DC_TABLES];
    uint32_t masks[2 * GROUP]; /* which coefficients the scan has made nonzero, in the present group
                                  (coefficients.h): 64 bits per block */
    words2 tokens[TOKENS];     /* Symbols whose values are not stored yet. x: the bits from the code
                                  on; y: 64 * block in the group + index of the coefficient. */
    uint32_t mcu[MCU_BLOCKS_MAX]; /* only for a DC scan: see lay_out_mcu */
};

/* The scan that a warp decodes, with copies of the members of its descriptor that inner loops
 * use. */
struct scan_job {
    const struct progressive_scan *scan;
    struct warp_memory *memory;
    uint32_t *progress; /* progressive_image.progress */
    /* Only for an AC scan: */
    const struct jpeg_huffman *table;
    int16_t *values; /* this and the next two: of the scan's component */
    uint32_t *masks;
    uint32_t blocks;
    /* For all scans: */
    uint32_t first, last, low;
    uint32_t end_bit; /* the end of the scan's data */
};

/* The state of a decoder between two blocks. */
struct scan_state {
    struct reader reader;
    uint32_t entry;  /* lookup table's entry of the next symbol */
    uint32_t run;    /* blocks left in the end-of-band run */
    uint32_t tokens; /* number of warp_memory.tokens */
    uint32_t segment;
    uint32_t verdict;
};

/* The load is volatile so that the compiler does not move it. The short loops look up the next
 * symbol before they know whether they can decode the present one, which hides the latency of the
 * lookup. */
SIMT uint32_t look_up(const struct warp_memory *memory, uint32_t bits)
{
    return *(const volatile uint32_t *)&memory->lookup[bits >> (32 - LOOKUP_BITS)];
}

/* The entry of a symbol whose code is longer than the index of the lookup table. */
SIMT uint32_t find_long(const struct scan_job *job, const int kind, uint32_t bits)
{
    return find_entry(job->table, &job->memory->ends[0], kind, (int)job->low, bits,
                      LOOKUP_BITS + 1);
}

/* ---- tokens ---- */

SIMT void add_token(const struct scan_job *job, struct scan_state *state, uint32_t bits,
                    uint32_t at)
{
    words2 token;
    token.x = bits;
    token.y = at;
    job->memory->tokens[state->tokens++] = token;
}

/* Stores the values of all tokens, one token per lane at a time, and sets the bits of their
 * coefficients in the masks. base: the first block of the group. */
SIMT void flush_tokens(const struct scan_job *job, struct scan_state *state, const int kind,
                       uint32_t base)
{
    struct warp_memory *memory = job->memory;
    int16_t *values = job->values + jpeg_coefficient(base, 0);
    warp_barrier();
    for (uint32_t i = (uint32_t)lane_index(); i < state->tokens; i += WARP_LANES) {
        uint32_t bits = memory->tokens[i].x, at = memory->tokens[i].y;
        uint32_t entry = memory->lookup[bits >> (32 - LOOKUP_BITS)];
        if (entry_is_long(entry))
            entry = find_long(job, kind, bits);
        uint32_t size = kind == AC_FIRST ? entry_size(entry) : 1;
        if (size == 0 || at >= JPEG_GROUP || base + at / JPEG_BLOCK >= job->blocks)
            continue;
        uint32_t extra = bits << (entry_bits(entry) - size);
        int value = extend_value(extra, size) * (1 << job->low);
        values[at % JPEG_BLOCK * GROUP + at / JPEG_BLOCK] = (int16_t)value;
        atomic_or(&memory->masks[at / 32], 1u << at % 32);
    }
    warp_barrier();
    state->tokens = 0;
}

/* Adds the masks of the group to those of the component, and clears them. block: the lane's
 * block. */
SIMT void merge_masks(const struct scan_job *job, uint32_t block)
{
    uint32_t *own = &job->memory->masks[2 * lane_index()];
    for (uint32_t i = 0; i < 2; i++) {
        if (own[i] && block < job->blocks)
            atomic_or(&job->masks[2 * block + i], own[i]);
        own[i] = 0;
    }
    warp_barrier();
}

/* ---- blocks ---- */

/* Returns the number of blocks of an end-of-band run after the present block. bits: the bits after
 * the code; run: of the symbol. */
DEVICE uint32_t run_after(uint32_t bits, uint32_t run)
{
    return (1u << run) - 1 + shift_right(bits, 32 - run);
}

/* Moves past a symbol in a short loop, and keeps it as a token. at: the position of its
 * coefficient, as in warp_memory.tokens. */
SIMT void pass_symbol(const struct scan_job *job, struct scan_state *state, uint32_t entry,
                      uint32_t at)
{
    struct reader *reader = &state->reader;
    add_token(job, state, reader->high, at);
    reader_shift(reader, entry);
    reader->spare = dot_bytes(entry, 0xFF, reader->spare); /* subtracts the number of bits */
}

/* The position to which the symbol of an entry advances. */
DEVICE uint32_t advanced(uint32_t entry, uint32_t at)
{
    return (uint32_t)dot_bytes(entry, 0x100, (int)at);
}

/* Decodes a block of an AC_FIRST scan. `at` is the position of the last coefficient that was
 * passed, as in warp_memory.tokens. */
SIMT void decode_first_block(const struct scan_job *job, struct scan_state *state, uint32_t block)
{
    struct reader *reader = &state->reader;
    uint32_t entry = state->entry, next, reached;
    uint32_t at = block % GROUP * JPEG_BLOCK + job->first - 1;
    uint32_t last = block % GROUP * JPEG_BLOCK + job->last;
    for (;;) {
        for (;;) {
            next = look_up(job->memory, funnel_left(reader->low, reader->high, entry));
            reached = advanced(entry, at);
            if ((int32_t)entry < 0 || reached > last)
                break;
            at = reached;
            pass_symbol(job, state, entry, at);
            entry = look_up(job->memory, funnel_left(reader->low, reader->high, next));
            reached = advanced(next, at);
            if ((int32_t)next < 0 || reached > last) {
                entry = next;
                reader_fill(reader);
                next = look_up(job->memory, funnel_left(reader->low, reader->high, entry));
                break;
            }
            at = reached;
            pass_symbol(job, state, next, at);
            reader_fill(reader);
        }
        if (at >= last)
            break;
        uint32_t bits = reader->high;
        bool is_long = entry_is_long(entry);
        if (is_long)
            entry = find_long(job, AC_FIRST, bits);
        uint32_t used = entry_bits(entry), run = entry_run(entry);
        reader_drop(reader, used);
        if (is_long)
            next = look_up(job->memory, reader->high);
        if (entry & ENTRY_INVALID)
            state->verdict = JPEG_SCANS_CODE;
        if (entry & ENTRY_ENDS) {
            state->run = run_after(bits << (used - run), run);
            entry = next;
            break;
        }
        at += entry_advance(entry);
        if (at > last)
            state->verdict = JPEG_SCANS_INDEX;
        if (entry_size(entry) > 0)
            add_token(job, state, bits, at);
        entry = next;
    }
    state->entry = entry;
}

/* Which coefficients of a block are nonzero before a refinement scan, from the next one on. Bit 0
 * of `low` is for the next coefficient, bit 0 of `high` for the one 32 later. The bit after the
 * last coefficient of the scan is also set, so that loops end there, and the bits after it are
 * 0. */
struct refined {
    uint32_t low, high;
    uint32_t nonzero; /* number of nonzero coefficients from the next one on */
};

/* Whether the short loop cannot decode the symbol, because it is special or would pass a nonzero
 * coefficient. */
DEVICE bool is_blocked(const struct refined *rest, uint32_t entry)
{
    return (rest->low << 16 | ENTRY_SPECIAL) & entry;
}

/* Moves past the coefficients of a symbol in the short loop. */
DEVICE void pass_zeros(struct refined *rest, uint32_t entry)
{
    rest->low = funnel_right(rest->low, rest->high, entry >> 8);
    rest->high = funnel_right(rest->high, 0, entry >> 8);
}

/* Returns the position of the zero coefficient before which there are `run` other zeros, at most
 * 63. */
SIMT uint32_t find_zero(const struct refined *rest, uint32_t run)
{
    uint32_t low = (uint32_t)count_bits(~rest->low), zeros = run < low ? ~rest->low : ~rest->high;
    NO_UNROLL
    for (uint32_t i = run < low ? run : run - low; i > 0; i--)
        zeros &= zeros - 1;
    return zeros ? (run < low ? 0 : 32) + (uint32_t)lowest_bit(zeros) : 63;
}

/* Drops the present symbol, of `used` bits, and the `count` correction bits after it, at most 63.
 * Looks up the next symbol. Returns `corrections` with these bits appended. */
SIMT uint64_t take_corrections(const struct scan_job *job, struct scan_state *state, uint32_t used,
                               uint32_t count, uint64_t corrections)
{
    struct reader *reader = &state->reader;
    if (used + count <= EARLY_BITS) {
        uint32_t bits = reader->high << used;
        state->entry = look_up(job->memory, funnel_left(reader->low, reader->high, used + count));
        reader_drop(reader, used + count);
        return corrections << count | shift_right(bits, 32 - count);
    }
    reader_drop(reader, used);
    corrections = corrections << count | reader_take(reader, (int)count);
    state->entry = look_up(job->memory, reader->high);
    return corrections;
}

/* Moves past `zero` + 1 coefficients; `zero` is at most 63. */
DEVICE void pass_coefficients(struct refined *rest, uint32_t zero)
{
    uint64_t both = ((uint64_t)rest->high << 32 | rest->low) >> zero >> 1;
    rest->low = (uint32_t)both;
    rest->high = (uint32_t)(both >> 32);
}

/* A block of a refinement scan while it is decoded. */
struct refinement {
    struct refined rest;
    uint32_t at; /* position of the last coefficient that was passed, as in warp_memory.tokens */
    uint64_t corrections; /* the correction bits so far, the last one in bit 0 */
};

/* If the last coefficient of the scan was passed, sets the verdict, and sets the bit at the end of
 * *rest again, without which the short loop would not end. */
SIMT void check_end(struct scan_state *state, struct refined *rest)
{
    bool passed = (rest->low | rest->high) == 0;
    rest->low |= passed;
    state->verdict = passed ? (uint32_t)JPEG_SCANS_INDEX : state->verdict;
}

/* Decodes any symbol that does not end the block, and the correction bits of the nonzero
 * coefficients that it passes. */
SIMT void decode_symbol(const struct scan_job *job, struct scan_state *state, uint32_t entry,
                        struct refinement *block)
{
    uint32_t used = entry_bits(entry), run = entry_advance(entry) - 1;
    uint32_t zero = find_zero(&block->rest, run), count = zero - run;
    block->at += zero + 1;
    if (!(entry & ENTRY_SPECIAL) || entry_size(entry) > 0)
        add_token(job, state, state->reader.high, block->at);
    block->corrections = take_corrections(job, state, used, count, block->corrections);
    block->rest.nonzero -= count;
    pass_coefficients(&block->rest, zero);
    check_end(state, &block->rest);
}

/* As decode_symbol, but faster, for a run of at most 3 zeros, if the next coefficient is in
 * rest.low and few correction bits follow. Otherwise does nothing and returns false. */
SIMT bool decode_usual_symbol(const struct scan_job *job, struct scan_state *state, uint32_t entry,
                              struct refinement *block)
{
    struct reader *reader = &state->reader;
    uint32_t used = entry_bits(entry), run = entry_advance(entry) - 1;
    uint32_t zeros = ~block->rest.low, second = zeros & (zeros - 1);
    uint32_t third = second & (second - 1), fourth = third & (third - 1);
    zeros = run & 2 ? (run & 1 ? fourth : third) : run & 1 ? second : zeros;
    uint32_t zero = (uint32_t)lowest_bit(zeros), count = zero - run, total = used + count;
    if (run > 3 || count > EARLY_BITS - used) /* count is large if there is no such zero */
        return false;
    uint32_t bits = reader->high;
    state->entry = look_up(job->memory, funnel_left(reader->low, bits, total));
    block->at += zero + 1;
    add_token(job, state, bits, block->at);
    block->corrections = block->corrections << count | shift_right(bits << used, 32 - count);
    block->rest.nonzero -= count;
    block->rest.low = funnel_right(block->rest.low, block->rest.high, zero + 1);
    block->rest.high = funnel_right(block->rest.high, 0, zero + 1);
    check_end(state, &block->rest);
    reader_drop(reader, total);
    return true;
}

/* The short loop of refinement scans. Returns the entry of the first symbol that it cannot
 * decode. */
SIMT uint32_t decode_short_symbols(const struct scan_job *job, struct scan_state *state,
                                   struct refinement *block)
{
    struct reader *reader = &state->reader;
    uint32_t entry = state->entry;
    for (;;) {
        uint32_t next = look_up(job->memory, funnel_left(reader->low, reader->high, entry));
        if (is_blocked(&block->rest, entry))
            return entry;
        block->at = advanced(entry, block->at);
        pass_symbol(job, state, entry, block->at);
        pass_zeros(&block->rest, entry);
        entry = look_up(job->memory, funnel_left(reader->low, reader->high, next));
        if (is_blocked(&block->rest, next)) {
            reader_fill(reader);
            return next;
        }
        block->at = advanced(next, block->at);
        pass_symbol(job, state, next, block->at);
        pass_zeros(&block->rest, next);
        reader_fill(reader);
    }
}

/* Decodes block `number` of an AC_REFINE scan. Returns its correction bits. */
SIMT uint64_t decode_refined_block(const struct scan_job *job, struct scan_state *state,
                                   uint32_t number, struct refined rest)
{
    struct refinement block;
    block.rest = rest;
    block.at = number % GROUP * JPEG_BLOCK + job->first - 1;
    block.corrections = 0;
    for (;;) {
        uint32_t entry = decode_short_symbols(job, state, &block);
        if (block.rest.high == 0 && block.rest.low == 1) {
            state->entry = entry;
            return block.corrections;
        }
        if ((int32_t)entry >= 0) {
            if (!decode_usual_symbol(job, state, entry, &block))
                decode_symbol(job, state, entry, &block);
            continue;
        }
        uint32_t bits = state->reader.high;
        if (entry_is_long(entry))
            entry = find_long(job, AC_REFINE, bits);
        if (entry & ENTRY_INVALID)
            state->verdict = JPEG_SCANS_CODE;
        if (entry & ENTRY_ENDS) {
            uint32_t used = entry_bits(entry), run = entry_run(entry);
            state->run = run_after(bits << (used - run), run);
            return take_corrections(job, state, used, block.rest.nonzero, block.corrections);
        }
        decode_symbol(job, state, entry, &block);
    }
}

/* Returns the sum of the values, 0 to 63, of all lower lanes. *total: of all lanes. */
SIMT uint32_t sum_below(uint32_t value, uint32_t *total)
{
    uint32_t lower = (1u << lane_index()) - 1, below = 0, all = 0;
    UNROLL
    for (int bit = 0; bit < 6; bit++) {
        uint32_t lanes = warp_ballot(value >> bit & 1);
        below += (uint32_t)count_bits(lanes & lower) << bit;
        all += (uint32_t)count_bits(lanes) << bit;
    }
    *total = all;
    return below;
}

/* Reads the correction bits of `count` blocks in an end-of-band run, from `block` on. nonzero: the
 * number of nonzero coefficients of the lane's block of the group. Returns the bits of the lane's
 * block. */
SIMT uint64_t decode_run(const struct scan_job *job, struct scan_state *state, uint32_t block,
                         uint32_t count, uint32_t nonzero)
{
    struct reader *reader = &state->reader;
    uint32_t lane = (uint32_t)lane_index(), from = block % GROUP, total;
    uint32_t own = lane >= from && lane < from + count ? nonzero : 0;
    if (!warp_any(own > 0))
        return 0;
    uint32_t before = sum_below(own, &total);
    uint64_t corrections;
    if (total < 32) {
        corrections = shift_right(shift_left(reader->high, before), 32 - own);
        reader_drop(reader, total);
    } else {
        uint32_t position = reader_position(reader);
        corrections = own ? bits_at(reader, position + before, (int)own) : 0;
        reader_seek(reader, position + total);
    }
    state->entry = look_up(job->memory, reader->high);
    return corrections;
}
