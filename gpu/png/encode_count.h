/*
 * encode_count.h - a block of threads counts the literals and the matches of a tile, and adds up
 * its bytes for the checksum.
 */
#pragma once

#include "gpu/png/encode_filter.h"
#include "gpu/png/encode_tokens.h"

/* The counts of a warp. The last word only lets the counts of warps begin in different banks. */
#define WARP_COUNTS 257

struct count_shared {
    struct tile_flags flags;
    uint32_t counts[TILE_WARPS][WARP_COUNTS];
    uint32_t lengths[WARP_LANES];
    uint32_t adler1, adler2, repeats, saved, short_saved;
};

/* Adds the bytes of a word to the checksum. The word's other bytes are 0. */
SIMT void add_adler(const struct tile_word *of, int rest, uint32_t *adler1, uint32_t *adler2)
{
    int sum = 0, weighted = 0;
    UNROLL
    for (int i = 0; i < WORD_BYTES / 4; i++) {
        uint32_t weights = 0x1D1E1F20u - (uint32_t)i * 0x04040404u; /* 32, 31, 30, 29, ... */
        sum = dot_bytes(of->words[i], 0x01010101u, sum);
        weighted = dot_bytes(of->words[i], weights, weighted);
    }
    /* rest: the bytes from the word on. Together at most 255 * 32 * 32768. */
    *adler1 += (uint32_t)sum;
    *adler2 += ((uint32_t)weighted + (uint32_t)sum * (uint32_t)(rest - WORD_BYTES)) % ADLER_BASE;
}

/* Counts the bytes of a word, including repeats. */
SIMT void count_bytes(uint32_t counts[WARP_COUNTS], const struct tile_word *of, uint32_t flags,
                      uint32_t valid)
{
    if (flags == ~0u) {
        atomic_add(&counts[of->words[0] & 255], WORD_BYTES);
    } else if (valid == ~0u) {
        UNROLL
        for (int i = 0; i < WORD_BYTES; i++)
            atomic_add(&counts[byte_of(of, i)], 1);
    } else {
        UNROLL
        for (int i = 0; i < WORD_BYTES; i++)
            if (valid >> i & 1)
                atomic_add(&counts[byte_of(of, i)], 1);
    }
}

/* Fills the flags, and adds up the bytes. */
SIMT void read_tile(struct count_shared *shared, const struct tile_bytes *tile)
{
    uint32_t adler1 = 0, adler2 = 0, repeats = 0;
    for (int step = 0; step < WORD_STEPS; step++) {
        int word = step * TILE_THREADS + thread_index();
        uint32_t valid = valid_bytes(tile, word), flags = 0;
        if (valid != 0) {
            struct tile_word of = load_tile_word(tile, word);
            flags = flags_of(tile, &of, word);
            count_bytes(shared->counts[thread_index() / WARP_LANES], &of, flags, valid);
            if (valid != ~0u) {
                UNROLL
                for (int i = 0; i < WORD_BYTES / 4; i++)
                    of.words[i] &= (valid >> 4 * i & 1 ? 0xFFu : 0) |
                                   (valid >> 4 * i & 2 ? 0xFF00u : 0) |
                                   (valid >> 4 * i & 4 ? 0xFF0000u : 0) |
                                   (valid >> 4 * i & 8 ? 0xFF000000u : 0);
            }
            add_adler(&of, tile->count - word * WORD_BYTES, &adler1, &adler2);
            repeats += (uint32_t)count_bits(flags);
        }
        shared->flags.of[word] = flags;
    }
    adler1 = warp_sum(adler1);
    adler2 = warp_sum(adler2);
    repeats = warp_sum(repeats);
    if (lane_index() == 0) {
        atomic_add(&shared->adler1, adler1);
        atomic_add(&shared->adler2, adler2);
        atomic_add(&shared->repeats, repeats);
    }
}

/* Replaces the counts of the bytes in a match by its length code. */
SIMT void count_matches(struct count_shared *shared, uint32_t value, uint32_t matched)
{
    uint32_t rest = matched % PNG_MATCH_MAX, bits, extra;
    atomic_add(&shared->counts[thread_index() / WARP_LANES][value], 0u - matched);
    if (matched >= PNG_MATCH_MAX)
        atomic_add(&shared->lengths[28], matched / PNG_MATCH_MAX);
    if (rest > 0)
        atomic_add(&shared->lengths[length_symbol(rest, &bits, &extra)], 1);
}

/* Adds up in *saved how many tokens fewer than bytes there are with matches of run_min repeats and
 * more. counts: whether to count them, too. A run counts where it begins. */
SIMT void find_matches(struct count_shared *shared, const struct tile_bytes *tile, uint32_t run_min,
                       bool counts, uint32_t *saved)
{
    uint32_t own = 0;
    for (int step = 0; step < WORD_STEPS; step++) {
        int word = step * TILE_THREADS + thread_index();
        uint32_t begins =
            may_match(shared->flags.of[word], run_min) ? run_begins(&shared->flags, word) : 0;
        while (begins != 0) {
            int i = lowest_bit(begins), at = word * WORD_BYTES + i;
            begins &= begins - 1;
            uint32_t run = (uint32_t)(run_end(&shared->flags, word, i) - at);
            uint32_t matched = png_matched(run, run_min);
            own += matched - (matched + PNG_MATCH_MAX - 1) / PNG_MATCH_MAX;
            if (counts && matched > 0)
                count_matches(shared, tile->at[at], matched);
        }
    }
    own = warp_sum(own);
    if (lane_index() == 0)
        atomic_add(saved, own);
}

/* Decides which matches a tile has, and counts them. Returns the run_min. Ends with a barrier. */
SIMT uint32_t choose_matches(struct count_shared *shared, const struct png_encode_descriptor *image,
                             const struct tile_bytes *tile)
{
    uint32_t run_min = png_run_min(image->channels, image->row_bytes);
    uint32_t bytes = (uint32_t)tile->count;
    if (run_min != PNG_RUN_LEAST && png_may_be_short(bytes, shared->repeats)) {
        find_matches(shared, tile, run_min, false, &shared->saved);
        find_matches(shared, tile, PNG_RUN_LEAST, false, &shared->short_saved);
        block_barrier();
        bool is_short = png_prefers_short(bytes - shared->saved, bytes - shared->short_saved);
        block_barrier();
        if (thread_index() == 0)
            shared->saved = 0;
        block_barrier();
        run_min = is_short ? PNG_RUN_LEAST : run_min;
    }
    find_matches(shared, tile, run_min, true, &shared->saved);
    block_barrier();
    return run_min;
}
