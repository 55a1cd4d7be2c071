/*
 * decode_window.h - the window of inflated bytes that a block of threads completes at a time, in
 * shared memory.
 *
 * Lanes write literals at their places, and matches as pieces of a few bytes in a list, which is in
 * the order of the output. Then each byte of a piece gets a link to the byte that it repeats, or
 * the byte itself if it is before the window. At last, each thread takes a piece and follows its
 * links, which lead back. Those that lead to earlier pieces than the block's current ones end
 * there, so chains are short.
 */
#pragma once

#include "gpu/png/decode_codes.h"

/* Entries of the window. At most 2^14, as pieces have 14 bits for them; a multiple of 8. */
#define WINDOW_ENTRIES 10240
/* An entry is a byte, or a link: this bit, and the index of another entry. */
#define LINK            0x8000u
#define LINK_INDEX      0x3FFFu
#define MATCH_BYTES_MAX 258
#define PIECE_BYTES     8
#define PIECES_MAX      2048
/* Pieces of the longest match. */
/* Links that a thread follows before others see what it has found. This bounds the work for chains
 * of many links. */
#define LINKS_FOLLOWED 16

struct window {
    uint16_t entries[WINDOW_ENTRIES];
    /* Pieces: bits 0 to 13, the first entry; bits 14 to 16, the bytes minus 1; bits 17 to 31, the
     * distance minus 1. */
    uint32_t pieces[PIECES_MAX];
    uint8_t *out;  /* where the output of the window goes: aligned to 4 */
    uint32_t base; /* bytes of output before it */
    uint32_t lead; /* entries at the start of the window that are already known: 0 to 3 */
};

DEVICE uint32_t match_pieces(uint32_t length)
{
    return (length + PIECE_BYTES - 1) / PIECE_BYTES;
}

DEVICE uint32_t piece_of(uint32_t at, uint32_t bytes, uint32_t distance)
{
    return at | (bytes - 1) << 14 | (distance - 1) << 17;
}

/* PIECE_BYTES modulo a distance, plus 0 or `distance`. */
DEVICE uint32_t piece_step(uint32_t distance)
{
    return distance < PIECE_BYTES ? 0x12302000 >> 4 * distance & 15 : PIECE_BYTES;
}

/* Lists the pieces of a match at an entry. to: of its first piece. */
SIMT void put_match(uint32_t *to, uint32_t at, uint32_t length, uint32_t distance)
{
    *to = piece_of(at, length < PIECE_BYTES ? length : PIECE_BYTES, distance);
    if (length > PIECE_BYTES) {
        /* The bytes of a match repeat, so a multiple of its distance is right, too. A piece has the
         * first one that leads before the match. phase: the offset of the piece, modulo distance */
        uint32_t step = piece_step(distance), phase = 0;
        NO_UNROLL
        for (uint32_t offset = PIECE_BYTES; offset < length; offset += PIECE_BYTES) {
            uint32_t left = length - offset;
            phase += step;
            phase -= phase >= distance ? distance : 0;
            *++to = piece_of(at + offset, left < PIECE_BYTES ? left : PIECE_BYTES,
                             offset - phase + distance);
        }
    }
}

/* Writes links, or bytes of earlier windows, to the entries of all pieces. */
SIMT void link_pieces(struct window *window, uint32_t count)
{
    for (uint32_t i = (uint32_t)thread_index(); i < count; i += INFLATE_THREADS) {
        uint32_t piece = window->pieces[i], at = piece & LINK_INDEX, last = piece >> 14 & 7;
        uint32_t distance = (piece >> 17) + 1, offset = 0, entries[PIECE_BYTES];
        UNROLL
        for (uint32_t k = 0; k < PIECE_BYTES; k++) {
            int32_t from = (int32_t)(at + offset) - (int32_t)distance;
            entries[k] = LINK | (uint32_t)from;
            if (from < 0 && k <= last)
                entries[k] = window->out[from];
            offset = offset + 1 == distance ? 0 : offset + 1;
        }
        UNROLL
        for (uint32_t k = 0; k < PIECE_BYTES; k++)
            if (k <= last)
                window->entries[at + k] = (uint16_t)entries[k];
    }
}

/* Follows links until all entries are bytes, but at most LINKS_FOLLOWED of each. Returns whether a
 * link is left. */
SIMT bool follow_links(const struct window *window, uint32_t entries[PIECE_BYTES])
{
    uint32_t any = LINK;
    NO_UNROLL
    for (int i = 0; i < LINKS_FOLLOWED && (any & LINK) != 0; i++) {
        any = 0;
        UNROLL
        for (uint32_t k = 0; k < PIECE_BYTES; k++) {
            if (entries[k] & LINK)
                entries[k] = window->entries[entries[k] & LINK_INDEX];
            any |= entries[k];
        }
    }
    return (any & LINK) != 0;
}

/* Replaces the links of as many pieces as the block has threads, from `first` on. Those of earlier
 * pieces are replaced. */
SIMT void resolve_pieces(struct window *window, uint32_t first, uint32_t count)
{
    uint32_t i = first + (uint32_t)thread_index(), at = 0, bytes = 0;
    if (i < count) {
        at = window->pieces[i] & LINK_INDEX;
        bytes = (window->pieces[i] >> 14 & 7) + 1;
    }
    for (bool is_left = true; is_left;) {
        uint32_t entries[PIECE_BYTES];
        UNROLL
        for (uint32_t k = 0; k < PIECE_BYTES; k++)
            entries[k] = k < bytes ? window->entries[at + k] : 0;
        is_left = follow_links(window, entries);
        block_barrier();
        UNROLL
        for (uint32_t k = 0; k < PIECE_BYTES; k++)
            if (k < bytes)
                window->entries[at + k] = (uint16_t)entries[k];
        is_left = block_any(is_left);
    }
}

/* Replaces all matches by their bytes. count: of pieces. All threads of the block call it together,
 * after a barrier. */
SIMT void resolve_matches(struct window *window, uint32_t count)
{
    link_pieces(window, count);
    block_barrier();
    for (uint32_t first = 0; first < count; first += INFLATE_THREADS)
        resolve_pieces(window, first, count);
}

/* Moves the bytes of the window to the output, but keeps the last 0 to 3 of them, so that only
 * whole words are written. All threads of the block call it together, after a barrier. */
SIMT void flush_window(struct window *window, uint32_t end)
{
    uint32_t thread = (uint32_t)thread_index(), words = end / 4, kept = 0;
    uint32_t *out = (uint32_t *)window->out;
    for (uint32_t i = thread; i < words; i += INFLATE_THREADS) {
        words2 pair = *(const words2 *)&window->entries[4 * i];
        uint32_t low = (pair.x & 255) | (pair.x >> 8 & 0xFF00);
        uint32_t high = (pair.y & 255) | (pair.y >> 8 & 0xFF00);
        out[i] = low | high << 16;
    }
    if (thread < end % 4)
        kept = window->entries[4 * words + thread];
    block_barrier();
    if (thread < end % 4)
        window->entries[thread] = (uint16_t)kept;
    if (thread == 0) {
        window->out += 4 * (size_t)words;
        window->base += 4 * words;
        window->lead = end % 4;
    }
    block_barrier();
}
