/*
 * encode_tokens.h - a block of threads finds the matches of a tile (png_tiles.h).
 *
 * Each thread has words of the tile: 32 bytes, with a flag for each byte that repeats the one
 * before it. Runs of flags cross words. So there is for each word where the run that enters it
 * began, and where the run that leaves it ends.
 */
#pragma once

#include "gpu/png/encode_impl.h"
#include "gpu/simt/simt.h"

#define TILE_THREADS 256
#define TILE_WARPS   (TILE_THREADS / WARP_LANES)
#define WORD_BYTES   32 /* of the tile, per word of flags */
#define TILE_WORDS   (PNG_TILE_BYTES / WORD_BYTES)
#define WORD_STEPS   (TILE_WORDS / TILE_THREADS)

/* A tile in memory. */
struct tile_bytes {
    const uint8_t *at;
    int count;
    uint8_t before; /* the byte of the stream before it, or for the first tile another one */
};

/* Where a tile ends in the filtered stream, and how many bytes it has. */
SIMT uint64_t tile_end(const struct png_encode_descriptor *image, uint32_t tile, int *count)
{
    if (image->tile_rows == 0) {
        uint32_t y = tile / image->row_tiles, piece = tile - y * image->row_tiles;
        size_t at = piece > 0 ? PNG_TILE_BYTES + (size_t)(piece - 1) * PNG_PIECE_BYTES : 0;
        size_t bytes = png_piece_bytes(image->row_bytes, at);
        *count = (int)bytes;
        return (uint64_t)y * image->row_bytes + at + bytes;
    }
    uint32_t first = tile * image->tile_rows, rows = image->tile_rows;
    if (rows > image->height - first)
        rows = image->height - first;
    *count = (int)(rows * image->row_bytes);
    return (uint64_t)(first + rows) * image->row_bytes;
}

SIMT const uint8_t *tile_address(const struct png_encode_descriptor *image, uint32_t tile)
{
    if (image->tile_rows > 0)
        return image->stream + (size_t)tile * image->tile_stride;
    uint32_t y = tile / image->row_tiles, piece = tile - y * image->row_tiles;
    return image->stream + (size_t)y * image->row_stride + (size_t)piece * image->tile_stride;
}

SIMT struct tile_bytes tile_at(const struct png_encode_descriptor *image, uint32_t tile)
{
    struct tile_bytes of;
    of.at = tile_address(image, tile);
    (void)tile_end(image, tile, &of.count);
    if (tile > 0) {
        int count;
        (void)tile_end(image, tile - 1, &count);
        of.before = tile_address(image, tile - 1)[count - 1];
    } else {
        of.before = (uint8_t)~of.at[0];
    }
    return of;
}

/* ---- flags ---- */

struct tile_word {
    uint32_t words[WORD_BYTES / 4];
};

SIMT struct tile_word load_tile_word(const struct tile_bytes *tile, int word)
{
    words4 low = load_words4(tile->at + word * WORD_BYTES);
    words4 high = load_words4(tile->at + word * WORD_BYTES + WORD_BYTES / 2);
    struct tile_word of = {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
    return of;
}

SIMT uint32_t byte_of(const struct tile_word *of, int i)
{
    return of->words[i / 4] >> i % 4 * 8 & 255;
}

/* Bit i: byte i is 0. */
DEVICE uint32_t zero_bytes(uint32_t bytes)
{
    uint32_t zeros = ~(((bytes & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) | bytes | 0x7F7F7F7Fu);
    return (zeros >> 7) * 0x10204080u >> 28;
}

/* A mask of the bytes of a word that belong to the tile. */
SIMT uint32_t valid_bytes(const struct tile_bytes *tile, int word)
{
    int rest = tile->count - word * WORD_BYTES;
    return rest >= 32 ? ~0u : rest <= 0 ? 0 : (1u << rest) - 1;
}

SIMT uint32_t flags_of(const struct tile_bytes *tile, const struct tile_word *of, int word)
{
    uint32_t before = (uint32_t)(word > 0 ? tile->at[word * WORD_BYTES - 1] : tile->before) << 24;
    uint32_t flags = 0;
    UNROLL
    for (int i = 0; i < WORD_BYTES / 4; i++) {
        flags |= zero_bytes(of->words[i] ^ funnel_right(before, of->words[i], 24)) << 4 * i;
        before = of->words[i];
    }
    return flags & valid_bytes(tile, word);
}

struct tile_flags {
    uint32_t of[TILE_WORDS];
    uint16_t begins[TILE_WORDS]; /* where the run before the word began */
    uint16_t ends[TILE_WORDS];   /* where the run that has the word's last byte ends */
    uint32_t warps[2 * TILE_WARPS];
};

/* Fills begins[] and ends[] after of[] has been filled. Begins and ends with a barrier. */
SIMT void scan_flags(struct tile_flags *flags, int count)
{
    int thread = thread_index(), lane = lane_index(), warp = thread / WARP_LANES;
    int first = thread * WORD_STEPS;
    /* A run begins after the last byte without a flag, and ends before the next one. */
    int begin = 0, end = count;
    block_barrier();
    for (int i = 0; i < WORD_STEPS; i++) {
        uint32_t gaps = ~flags->of[first + i], last = ~flags->of[first + WORD_STEPS - 1 - i];
        if (gaps != 0)
            begin = (first + i) * WORD_BYTES + highest_bit(gaps) + 1;
        if (last != 0)
            end = (first + WORD_STEPS - 1 - i) * WORD_BYTES + lowest_bit(last);
    }
    end = end < count ? end : count;
    /* The latest begin of the lower threads, and the first end of the higher ones. */
    UNROLL
    for (int by = 1; by < WARP_LANES; by *= 2) {
        int below = (int)warp_read_up((uint32_t)begin, by);
        int above = (int)warp_read_down((uint32_t)end, by);
        begin = below > begin ? below : begin;
        end = above < end ? above : end;
    }
    if (lane == WARP_LANES - 1)
        flags->warps[warp] = (uint32_t)begin;
    if (lane == 0)
        flags->warps[TILE_WARPS + warp] = (uint32_t)end;
    begin = (int)warp_read_up((uint32_t)begin, 1);
    end = (int)warp_read_down((uint32_t)end, 1);
    begin = lane == 0 ? 0 : begin;
    end = lane == WARP_LANES - 1 ? count : end;
    block_barrier();
    for (int i = 0; i < warp; i++)
        begin = (int)flags->warps[i] > begin ? (int)flags->warps[i] : begin;
    for (int i = warp + 1; i < TILE_WARPS; i++)
        end = (int)flags->warps[TILE_WARPS + i] < end ? (int)flags->warps[TILE_WARPS + i] : end;
    for (int i = 0; i < WORD_STEPS; i++) {
        int low = first + i, high = first + WORD_STEPS - 1 - i;
        uint32_t gaps = ~flags->of[low], last = ~flags->of[high];
        flags->begins[low] = (uint16_t)begin;
        flags->ends[high] = (uint16_t)end;
        if (gaps != 0)
            begin = low * WORD_BYTES + highest_bit(gaps) + 1;
        if (last != 0)
            end = high * WORD_BYTES + lowest_bit(last);
        end = end < count ? end : count;
    }
    block_barrier();
}

/* ---- runs and matches ---- */

/* False if the word surely has no part of a run of run_min repeats. */
SIMT bool may_match(uint32_t flags, uint32_t run_min)
{
    uint32_t pairs = flags & flags >> 1;
    uint32_t inside = run_min > 4 ? pairs & pairs >> 2 & flags >> 4 : pairs & flags >> 2;
    return inside != 0 || (flags & 0x80000001u) != 0;
}

/* Bits [from, to), of which there is one or more. */
DEVICE uint32_t bits_between(int from, int to)
{
    return ~0u >> (32 - (to - from)) << from;
}

/* The bits of `flags` where its runs begin. */
SIMT uint32_t run_begins(const struct tile_flags *flags, int word)
{
    uint32_t of = flags->of[word];
    return of & ~(of << 1 | (word > 0 ? flags->of[word - 1] >> 31 : 0));
}

/* Where the run ends that has bit i of the word. */
SIMT int run_end(const struct tile_flags *flags, int word, int i)
{
    uint32_t gaps = ~flags->of[word] >> i;
    int end = word * WORD_BYTES + i + lowest_bit(gaps);
    return gaps != 0 ? end : flags->ends[word];
}

/* Returns a mask of the bytes where matches begin. *covered: of the bytes in matches */
SIMT uint32_t match_begins(const struct tile_flags *flags, int word, uint32_t run_min,
                           uint32_t *covered)
{
    uint32_t left = flags->of[word], begins = 0;
    int base = word * WORD_BYTES;
    *covered = 0;
    while (left != 0) {
        int from = lowest_bit(left), gap = lowest_bit(~(left >> from));
        int to = gap < 0 || from + gap > 32 ? 32 : from + gap;
        left &= ~bits_between(from, to);
        int begin = from == 0 ? flags->begins[word] : base + from;
        int end = to == 32 ? flags->ends[word] : base + to;
        int matched = begin - base + (int)png_matched((uint32_t)(end - begin), run_min);
        if (matched <= from)
            continue;
        to = matched < to ? matched : to;
        *covered |= bits_between(from, to);
        /* At most one of the run's matches begins here. */
        int skipped = base + from - begin;
        int at = from + (skipped + PNG_MATCH_MAX - 1) / PNG_MATCH_MAX * PNG_MATCH_MAX - skipped;
        if (at < to)
            begins |= 1u << at;
    }
    return begins;
}

/* png_length_symbol without a loop. */
DEVICE uint32_t length_symbol(uint32_t length, uint32_t *bits, uint32_t *value)
{
    uint32_t at = length - 3, top = (uint32_t)highest_bit(at | 4);
    uint32_t shift = length < PNG_MATCH_MAX ? top - 2 : 0;
    *bits = shift;
    *value = at & ((1u << shift) - 1);
    return length < PNG_MATCH_MAX ? shift * 4 + (at >> shift) : 28;
}

/* The length of the match that begins at bit i of the word. */
SIMT uint32_t match_length(const struct tile_flags *flags, int word, int i)
{
    int length = run_end(flags, word, i) - (word * WORD_BYTES + i);
    return (uint32_t)(length < PNG_MATCH_MAX ? length : PNG_MATCH_MAX);
}
