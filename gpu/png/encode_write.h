/*
 * encode_write.h - a block of threads writes the bits of a tile to the zlib stream, or an IDAT
 * chunk to the file.
 *
 * The bits of a tile are joined in shared memory. Each thread has the tokens that begin in its 32
 * bytes, and knows how many bits the lower threads have.
 */
#pragma once

#include "gpu/png/encode_crc.h"
#include "gpu/png/encode_place.h"
#include "gpu/png/encode_tokens.h"

/* A tile and the bits before it in its first word. */
#define OUT_WORDS (PNG_BLOCK_BYTES_MAX / 4 + 2)

/* A word of a tile has at most so many matches: they have 3 bytes or more, after a literal. */
#define WORD_MATCHES (WORD_BYTES / (PNG_RUN_LEAST + 1))

/* Codes of tokens: of the symbols, one without bits, and those of the matches of each thread's
 * word. */
#define NONE_AT    PNG_SYMBOLS
#define MATCHES_AT (PNG_SYMBOLS + 1)
#define CODES      (MATCHES_AT + WORD_MATCHES * TILE_THREADS)

struct write_shared {
    struct tile_flags flags;
    uint32_t codes[CODES], distance_bits;
    uint32_t sums[2][TILE_WARPS];
    uint32_t out[OUT_WORDS + TILE_THREADS]; /* 0 at first; then a word for each thread */
};

/* ---- bits of a thread ---- */

/* Writes bits one after the other to out[]. Other threads write parts of the first and of the last
 * word. So the first word is kept apart, in the thread's own word, until the end. */
struct thread_bits {
    uint32_t first, word, next; /* indices in out[]: of the first word, this one, the next one */
    uint32_t held, count;       /* count: bits in `held`, fewer than 32 */
};

SIMT struct thread_bits thread_bits_at(uint32_t at)
{
    struct thread_bits bits = {at / 32, OUT_WORDS + (uint32_t)thread_index(), at / 32 + 1, 0,
                               at % 32};
    return bits;
}

/* count: at most 32 */
SIMT void put_bits(struct write_shared *shared, struct thread_bits *bits, uint32_t value,
                   uint32_t count)
{
    uint32_t held = bits->held | value << bits->count, all = bits->count + count;
    if (all >= 32) {
        shared->out[bits->word] = held;
        held = shift_right(value, 32 - bits->count);
        bits->word = bits->next++;
    }
    bits->held = held;
    bits->count = all % 32;
}

SIMT void end_bits(struct write_shared *shared, const struct thread_bits *bits)
{
    uint32_t last = bits->word;
    if (last < OUT_WORDS)
        atomic_or(&shared->out[bits->first], shared->out[OUT_WORDS + (uint32_t)thread_index()]);
    else
        last = bits->first;
    if (bits->count > 0)
        atomic_or(&shared->out[last], bits->held);
}

SIMT void put_code(struct write_shared *shared, struct thread_bits *bits, uint32_t code)
{
    put_bits(shared, bits, PNG_CODE_BITS(code), PNG_CODE_COUNT(code));
}

/* ---- tokens ---- */

/* The tokens that begin in a word of a tile. */
struct word_tokens {
    uint32_t literals, matches; /* masks of bytes */
};

SIMT struct word_tokens word_tokens_of(const struct tile_flags *flags, int word, uint32_t valid,
                                       uint32_t run_min)
{
    struct word_tokens tokens = {valid, 0};
    uint32_t covered = 0;
    if (may_match(flags->of[word], run_min))
        tokens.matches = match_begins(flags, word, run_min, &covered);
    tokens.literals &= ~covered;
    return tokens;
}

/* Returns the code of the match that begins at byte i of the word, with its distance. */
SIMT uint32_t match_code(const struct write_shared *shared, int word, int i)
{
    uint32_t extra, value;
    uint32_t symbol = length_symbol(match_length(&shared->flags, word, i), &extra, &value);
    uint32_t code = shared->codes[257 + symbol], count = PNG_CODE_COUNT(code);
    return (PNG_CODE_BITS(code) | value << count) | (count + extra + shared->distance_bits) << 24;
}

/* Returns the bits of the tokens of a word, and sets the codes of its matches. */
SIMT uint32_t count_word_bits(struct write_shared *shared, const struct tile_word *of, int word,
                              struct word_tokens tokens)
{
    uint32_t bits = 0;
    if (warp_any(tokens.literals != ~0u)) {
        UNROLL
        for (int i = 0; i < WORD_BYTES; i++)
            if (tokens.literals >> i & 1)
                bits += PNG_CODE_COUNT(shared->codes[byte_of(of, i)]);
    } else {
        UNROLL
        for (int i = 0; i < WORD_BYTES; i++)
            bits += PNG_CODE_COUNT(shared->codes[byte_of(of, i)]);
    }
    for (int i = 0; tokens.matches != 0; i++) {
        uint32_t code = match_code(shared, word, lowest_bit(tokens.matches));
        shared->codes[MATCHES_AT + i * TILE_THREADS + thread_index()] = code;
        tokens.matches &= tokens.matches - 1;
        bits += PNG_CODE_COUNT(code);
    }
    return bits;
}

SIMT void write_word(struct write_shared *shared, const struct tile_word *of,
                     struct word_tokens tokens, uint32_t at)
{
    struct thread_bits bits = thread_bits_at(at);
    const uint32_t *codes = shared->codes;
    if (warp_any(tokens.literals != ~0u)) {
        uint32_t match = MATCHES_AT + (uint32_t)thread_index();
        UNROLL
        for (int i = 0; i < WORD_BYTES; i++) {
            bool is_literal = tokens.literals >> i & 1, is_match = tokens.matches >> i & 1;
            put_code(shared, &bits,
                     codes[is_literal ? byte_of(of, i)
                           : is_match ? match
                                      : NONE_AT]);
            match += is_match ? TILE_THREADS : 0;
        }
    } else {
        UNROLL
        for (int i = 0; i < WORD_BYTES; i += 2) { /* two codes have at most 28 bits */
            uint32_t low = codes[byte_of(of, i)], high = codes[byte_of(of, i + 1)];
            put_bits(shared, &bits, PNG_CODE_BITS(low) | PNG_CODE_BITS(high) << PNG_CODE_COUNT(low),
                     PNG_CODE_COUNT(low) + PNG_CODE_COUNT(high));
        }
    }
    end_bits(shared, &bits);
}

/* Returns the sum of the values of all lower threads, and adds that of all threads to *at. step: of
 * successive calls */
SIMT uint32_t scan_bits(struct write_shared *shared, uint32_t value, int step, uint32_t *at)
{
    uint32_t total, *sums = shared->sums[step % 2];
    uint32_t below = *at + warp_scan(value, &total);
    int warp = thread_index() / WARP_LANES;
    if (lane_index() == 0)
        sums[warp] = total;
    block_barrier();
    UNROLL
    for (int i = 0; i < TILE_WARPS; i++) {
        below += i < warp ? sums[i] : 0;
        *at += sums[i];
    }
    return below;
}

/* ---- tiles ---- */

/* A tile, and where its bits go. */
struct tile_place {
    struct tile_bytes bytes;
    const struct png_encode_tile *tile, *head;
    uint32_t offset; /* of its first bit in out[] */
    uint32_t *to;    /* the word of the zlib stream for out[0] */
    uint32_t bits;
    bool first, last; /* whether it is the first and the last tile of its block */
    bool is_last_block;
};

SIMT struct tile_place tile_place_of(const struct png_encode_descriptor *image, uint32_t index)
{
    struct tile_place of;
    const struct png_encode_tile *tile = image->tiles + index;
    bool ends = index + 1 == image->tile_count;
    of.bytes = tile_at(image, index);
    of.tile = tile;
    of.head = image->tiles + tile->head;
    of.to = image->bits + tile->at / 32;
    of.offset = (uint32_t)(tile->at % 32);
    of.bits = (uint32_t)((ends ? image->end_bit : tile[1].at) - tile->at);
    of.first = tile->head == index;
    of.last = ends || tile[1].head == index + 1;
    of.is_last_block = image->tiles[image->tile_count - 1].head == tile->head;
    return of;
}

/* Writes the tokens of a tile to out[], with the header of its block and its end. */
SIMT void write_coded(struct write_shared *shared, const struct tile_place *of,
                      const struct png_code *code)
{
    int thread = thread_index();
    uint32_t at = of->offset;
    for (int i = thread; i < PNG_SYMBOLS; i += TILE_THREADS)
        shared->codes[i] = code->codes[i];
    if (thread == 0) {
        shared->codes[NONE_AT] = 0;
        shared->distance_bits = code->distance_bits;
    }
    for (int step = 0; step < WORD_STEPS; step++) {
        int word = step * TILE_THREADS + thread;
        uint32_t flags = 0;
        if (word * WORD_BYTES < of->bytes.count) {
            struct tile_word bytes = load_tile_word(&of->bytes, word);
            flags = flags_of(&of->bytes, &bytes, word);
        }
        shared->flags.of[word] = flags;
    }
    scan_flags(&shared->flags, of->bytes.count);
    if (of->first) {
        uint32_t bits = code->header_bits, first = (uint32_t)thread * 32;
        if (first < bits) {
            struct thread_bits to = thread_bits_at(at + first);
            put_bits(shared, &to, code->header[thread], bits - first < 32 ? bits - first : 32);
            end_bits(shared, &to);
        }
        at += bits;
    }
    NO_UNROLL
    for (int step = 0; step < WORD_STEPS; step++) {
        int word = step * TILE_THREADS + thread;
        uint32_t valid = valid_bytes(&of->bytes, word), bits = 0;
        bool any = warp_any(valid != 0); /* the same path for a whole warp */
        struct word_tokens tokens = {0, 0};
        struct tile_word bytes;
        if (any) {
            bytes = load_tile_word(&of->bytes, valid != 0 ? word : 0);
            tokens = word_tokens_of(&shared->flags, word, valid, of->tile->run_min);
            bits = count_word_bits(shared, &bytes, word, tokens);
        }
        uint32_t below = scan_bits(shared, bits, step, &at);
        if (any)
            write_word(shared, &bytes, tokens, below);
    }
    if (of->last && thread == 0) {
        struct thread_bits to = thread_bits_at(at);
        put_code(shared, &to, shared->codes[PNG_END_OF_BLOCK]);
        end_bits(shared, &to);
    }
}

/* Writes a tile of a stored block to out[]. */
SIMT void write_stored(struct write_shared *shared, const struct tile_place *of)
{
    uint32_t at = of->offset, count = (uint32_t)of->bytes.count;
    if (of->first) {
        uint32_t bytes = of->head->block_bytes;
        at = (at + 3 + 7) / 8 * 8;
        block_barrier(); /* out[] is clear */
        if (thread_index() == 0) {
            struct thread_bits to = thread_bits_at(of->offset);
            put_bits(shared, &to, of->is_last_block, 1);
            end_bits(shared, &to);
            to = thread_bits_at(at);
            put_bits(shared, &to, bytes | (~bytes & 0xFFFF) << 16, 32);
            end_bits(shared, &to);
        }
        at += 32;
    }
    block_barrier();
    uint32_t shift = at % 32;
    for (uint32_t i = (uint32_t)thread_index(); i * 4 < count + shift / 8; i += TILE_THREADS) {
        uint32_t low = i > 0 ? load_word(of->bytes.at + (i - 1) * 4) : 0;
        uint32_t high = i * 4 < count ? load_word(of->bytes.at + i * 4) : 0;
        uint32_t word = shift > 0 ? funnel_left(low, high, shift) : high;
        int rest = (int)(count + shift / 8 - i * 4);
        shared->out[at / 32 + i] |= rest >= 4 ? word : word & ((1u << rest * 8) - 1);
    }
}

/* Copies out[] to the zlib stream. */
SIMT void copy_out(const struct write_shared *shared, const struct tile_place *of)
{
    uint32_t end = of->offset + of->bits;
    for (uint32_t i = (uint32_t)thread_index(); i * 32 < end; i += TILE_THREADS) {
        bool is_shared = i * 32 < of->offset || (i + 1) * 32 > end;
        if (is_shared)
            atomic_or(&of->to[i], shared->out[i]);
        else
            of->to[i] = shared->out[i];
    }
}

/* ---- IDAT chunks ---- */

#define LINE_BYTES 128

/* An IDAT chunk, and IEND if it is the last one. */
struct file_piece {
    uint8_t *to;         /* where the chunk's length goes in the file */
    const uint8_t *from; /* its contents, at an aligned address */
    uint32_t count, bytes;
};

SIMT struct file_piece file_piece_of(const struct png_encode_descriptor *image, uint32_t index)
{
    struct file_piece of;
    uint64_t rest = zlib_bytes(image) - (uint64_t)index * PNG_CHUNK_BYTES;
    of.to =
        image->file + image->header_bytes + (size_t)index * (PNG_CHUNK_BYTES + IDAT_BYTES_AROUND);
    of.from = (const uint8_t *)image->bits + (size_t)index * PNG_CHUNK_BYTES;
    of.count = rest < PNG_CHUNK_BYTES ? (uint32_t)rest : PNG_CHUNK_BYTES;
    of.bytes = of.count + IDAT_BYTES_AROUND + (rest <= PNG_CHUNK_BYTES ? IEND_BYTES : 0);
    return of;
}

CONSTANT uint8_t idat_type[4] = {'I', 'D', 'A', 'T'};
CONSTANT uint8_t iend_chunk[IEND_BYTES] = {0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xAE, 0x42, 0x60, 0x82};

/* Byte i of a piece. */
SIMT uint8_t piece_byte(const struct file_piece *of, uint32_t crc, uint32_t i)
{
    if (i < 4)
        return (uint8_t)(of->count >> (24 - 8 * i));
    if (i < IDAT_HEAD_BYTES)
        return idat_type[i - 4];
    i -= IDAT_HEAD_BYTES;
    if (i < of->count)
        return of->from[i];
    i -= of->count;
    return i < IDAT_CRC_BYTES ? (uint8_t)(crc >> (24 - 8 * i)) : iend_chunk[i - IDAT_CRC_BYTES];
}

/* Loads 16 bytes at any address. Reads up to 32 bytes from the multiple of 16 before it on. */
SIMT words4 load_unaligned4(const uint8_t *at)
{
    const uint8_t *start = at - ((uintptr_t)at & 15);
    words4 a = load_words4(start), b = load_words4(start + 16);
    uint32_t behind = (uint32_t)((uintptr_t)at & 15), shift = behind * 8;
    if (behind & 8) {
        a.x = a.z;
        a.y = a.w;
        a.z = b.x;
        a.w = b.y;
        b.x = b.z;
        b.y = b.w;
    }
    if (behind & 4) {
        a.x = a.y;
        a.y = a.z;
        a.z = a.w;
        a.w = b.x;
        b.x = b.y;
    }
    words4 of = {funnel_right(a.x, a.y, shift), funnel_right(a.y, a.z, shift),
                 funnel_right(a.z, a.w, shift), funnel_right(a.w, b.x, shift)};
    return of;
}

/* Writes the piece to the file, in whole units of 16 bytes where it has contents only. Each warp
 * writes whole lines, because PCIe transfers whole lines. */
SIMT void write_piece(const struct file_piece *of, struct crc_shared *shared,
                      const struct png_encode_powers *powers)
{
    SHARED uint32_t crc;
    uint32_t thread = (uint32_t)thread_index();
    /* The bytes of the piece that are in whole units. */
    uint32_t first = IDAT_HEAD_BYTES, end = IDAT_HEAD_BYTES + of->count;
    first += (uint32_t)(0 - (uintptr_t)(of->to + first)) & (UNIT_BYTES - 1);
    end -= (uint32_t)(uintptr_t)(of->to + end) & (UNIT_BYTES - 1);
    end = end > first ? end : first;
    uint32_t own = crc_of_chunk(shared, powers, of->from, (int)of->count);
    if (thread == 0)
        crc = own;
    int line = (int)first - (int)((uintptr_t)(of->to + first) % LINE_BYTES);
    for (int i = line + (int)thread * UNIT_BYTES; i < (int)end; i += CRC_THREADS * UNIT_BYTES)
        if (i >= (int)first)
            *(words4 *)(of->to + i) = load_unaligned4(of->from + (i - IDAT_HEAD_BYTES));
    block_barrier();
    if (thread < first)
        of->to[thread] = piece_byte(of, crc, thread);
    if (thread < of->bytes - end)
        of->to[end + thread] = piece_byte(of, crc, end + thread);
}

/* Copies a piece of the header of the file, which may be in host memory. */
SIMT void write_header_piece(const struct png_encode_descriptor *image, uint32_t index)
{
    uint32_t at = index * HEADER_PIECE_BYTES, bytes = image->header_bytes - at;
    bytes = bytes < HEADER_PIECE_BYTES ? bytes : HEADER_PIECE_BYTES;
    const uint8_t *from = image->header + at;
    uint8_t *to = image->file + at;
    for (uint32_t i = (uint32_t)thread_index(); i < bytes / 4; i += CRC_THREADS)
        ((uint32_t *)to)[i] = load_word(from + i * 4);
    for (uint32_t i = bytes & ~3u; i < bytes; i++)
        if (thread_index() == 0)
            to[i] = from[i];
}
