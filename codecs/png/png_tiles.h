/*
 * png_tiles.h - defines the bytes of the PNGs that the own encoder writes, for CPUs and GPUs.
 *
 * Everything is computed in integers, so that each implementation writes the same file.
 *
 * Filters. The stream has per row a byte with the filter and then the filtered bytes, the
 * residuals. A row takes the filter with the least sum of bit lengths of |residual|, where a
 * residual is a signed byte: png_best_filter. An image of one column has filter 0, like those of
 * libpng.
 *
 * Tiles. The stream is cut into tiles of at most PNG_TILE_BYTES. A tile has whole rows, as many as
 * fit. If a row does not fit, it is cut into several tiles: png_piece_bytes.
 *
 * Tokens. A byte that differs from the byte before it in the stream is a literal; so is the first
 * byte of the stream. The other bytes are repeats. r successive repeats of a tile become matches of
 * PNG_MATCH_MAX bytes at distance 1. The rest of r becomes one match, or literals if it is too
 * short: png_run_min, png_matched. A tile full of repeats may have shorter matches:
 * png_prefers_short. No token crosses the end of a tile.
 *
 * Blocks. A tile joins the deflate block of the tile before it if both have at most
 * PNG_JOINED_TOKENS_MAX tokens together, unless it is the first of a group of PNG_GROUP_TILES. Thus
 * flat images have few headers. A block has its own Huffman code, or the fixed code if that is not
 * longer (png_make_code), or it is stored (png_is_stored). The size of a block does not depend on
 * its position, except for the padding of stored blocks: png_block_end.
 *
 * Chunks. PNG_ZLIB_HEADER, the blocks, padding to a byte and the Adler-32 checksum are the zlib
 * stream. Each IDAT chunk has PNG_CHUNK_BYTES of it; the last one has the rest.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define PNG_DEVICE static __host__ __device__ __forceinline__
#else
#define PNG_DEVICE static inline __attribute__((unused))
#endif

#define PNG_FILTERS   5
#define PNG_MATCH_MAX 258
/* The pieces of long rows are runs of whole matches, if the row is flat. */
#define PNG_PIECE_BYTES (127 * PNG_MATCH_MAX)
/* A long row begins with its filter and a literal. */
#define PNG_TILE_BYTES        (2 + PNG_PIECE_BYTES)
#define PNG_JOINED_TOKENS_MAX 16384
#define PNG_GROUP_TILES       128
#define PNG_CHUNK_BYTES       65536
#define PNG_ZLIB_HEADER       0x0178 /* 16 bits: a window of 32 KiB, the fastest level */
#define PNG_CODE_BITS_MAX     14
#define PNG_SYMBOLS           286
#define PNG_END_OF_BLOCK      256
#define PNG_LENGTH_CODES      19 /* the code of the lengths in a block's header */
/* 17 bits, 3 per length code, and at most 7 per symbol and distance. */
#define PNG_HEADER_WORDS ((17 + PNG_LENGTH_CODES * 3 + (PNG_SYMBOLS + 2) * 7 + 31) / 32)
/* A block is never longer than with the fixed code, where a match with 5 extra bits has 18 bits.
 * That is more than one tile has, which is stored if it cannot be compressed. */
#define PNG_BLOCK_BYTES_MAX (PNG_JOINED_TOKENS_MAX * 18 / 8 + 16)

/* ---- filters ---- */

/* left, up, corner: a, b and c of the PNG standard. */
PNG_DEVICE int png_paeth(int left, int up, int corner)
{
    int from_left = up - corner, from_up = left - corner, from_corner = from_left + from_up;
    from_left = from_left < 0 ? -from_left : from_left;
    from_up = from_up < 0 ? -from_up : from_up;
    from_corner = from_corner < 0 ? -from_corner : from_corner;
    int other = from_up <= from_corner ? up : corner;
    int nearest = from_up < from_corner ? from_up : from_corner;
    return from_left <= nearest ? left : other;
}

PNG_DEVICE uint8_t png_residual(int filter, int byte, int left, int up, int corner)
{
    switch (filter) {
    case 0:
        return (uint8_t)byte;
    case 1:
        return (uint8_t)(byte - left);
    case 2:
        return (uint8_t)(byte - up);
    case 3:
        return (uint8_t)(byte - (left + up) / 2);
    default:
        return (uint8_t)(byte - png_paeth(left, up, corner));
    }
}

/* Returns the filter with the least cost; of equals the last. costs: the sums of the bit lengths of
 * |residual|. Paeth gets a bonus, because a change of the filter costs bits, too. In narrow images
 * and drawings they would be more than the other filters save. */
PNG_DEVICE int png_best_filter(const uint32_t costs[PNG_FILTERS])
{
    const uint32_t bonus = 24;
    int best = PNG_FILTERS - 1;
    uint32_t least = costs[best] > bonus ? costs[best] - bonus : 0;
    for (int filter = PNG_FILTERS - 2; filter >= 0; filter--)
        if (costs[filter] < least) {
            least = costs[filter];
            best = filter;
        }
    return best;
}

/* ---- tiles ---- */

/* The rows of a tile; 0: a row is cut into several tiles. row: its bytes with the filter. */
PNG_DEVICE uint32_t png_tile_rows(size_t row)
{
    return (uint32_t)(PNG_TILE_BYTES / row);
}

/* The bytes of the tile that begins at a byte of a row that is longer than a tile. */
PNG_DEVICE size_t png_piece_bytes(size_t row, size_t at)
{
    size_t most = at == 0 ? PNG_TILE_BYTES : PNG_PIECE_BYTES;
    return row - at < most ? row - at : most;
}

/* ---- tokens ---- */

/* The shortest match of deflate. */
#define PNG_RUN_LEAST 3
/* The width of narrow images, whose runs are short. */
#define PNG_NARROW_PIXELS 32

/* The fewest repeats that become a match. In RGB, two equal pixels are often 5 repeats, which cost
 * less as a match; in gray, short runs do not. row: its bytes with the filter */
PNG_DEVICE uint32_t png_run_min(uint32_t channels, size_t row)
{
    return row <= PNG_NARROW_PIXELS * channels + 1 ? PNG_RUN_LEAST : channels == 3 ? 5 : 8;
}

/* Whether PNG_RUN_LEAST is tried for a tile: if more than 3/4 of its bytes are repeats. */
PNG_DEVICE bool png_may_be_short(uint32_t bytes, uint32_t repeats)
{
    return repeats > bytes / 4 * 3;
}

/* Whether such a tile has PNG_RUN_LEAST: if it then has at most 3/4 of the tokens, as in patterns
 * of short runs. */
PNG_DEVICE bool png_prefers_short(uint32_t tokens, uint32_t short_tokens)
{
    return short_tokens <= tokens / 4 * 3;
}

/* How many of these repeats are in matches. The rest of a long run is a match, if it can be one. */
PNG_DEVICE uint32_t png_matched(uint32_t repeats, uint32_t run_min)
{
    uint32_t rest = repeats % PNG_MATCH_MAX;
    uint32_t least = repeats < PNG_MATCH_MAX ? run_min : PNG_RUN_LEAST;
    return rest >= least ? repeats : repeats - rest;
}

/* The length of a match as a symbol of deflate, less 257. *bits, *value: its extra bits. */
PNG_DEVICE uint32_t png_length_symbol(uint32_t length, uint32_t *bits, uint32_t *value)
{
    uint32_t at = length - 3, shift = 0;
    *bits = *value = 0;
    if (length == PNG_MATCH_MAX)
        return 28;
    if (at < 8)
        return at;
    while (at >> shift >= 8)
        shift++;
    *bits = shift;
    *value = at & ((1u << shift) - 1);
    return shift * 4 + (at >> shift);
}

/* The number of extra bits of such a symbol. */
PNG_DEVICE uint32_t png_length_bits(uint32_t symbol)
{
    return symbol < 8 || symbol == 28 ? 0 : symbol / 4 - 1;
}

/* ---- Huffman codes ----
 *
 * A key is the count of a symbol, times 512, plus the symbol. Keys are sorted, and their counts are
 * not 0. There are two or more: a block has a token and its end, and its header has lengths of
 * symbols and of distances, which are 1, among others. */

#define PNG_KEY(count, symbol) ((uint32_t)(count) << 9 | (uint32_t)(symbol))
#define PNG_KEY_SYMBOL(key)    ((key)&511)
#define PNG_KEY_COUNT(key)     ((key) >> 9)

/* Replaces the counts in `work` by the depths of the inner nodes of a Huffman tree, 0 to n - 2, of
 * which n - 2 is the root: the method of Moffat and Katajainen. n >= 2. */
PNG_DEVICE void png_tree_depths(uint32_t *work, int n)
{
    int root = 0, leaf = 2;
    work[0] += work[1];
    for (int next = 1; next < n - 1; next++) {
        uint32_t sum = 0;
        for (int child = 0; child < 2; child++)
            if (leaf >= n || (root < next && work[root] < work[leaf])) {
                sum += work[root];
                work[root++] = (uint32_t)next;
            } else {
                sum += work[leaf++];
            }
        work[next] = sum;
    }
    work[n - 2] = 0;
    for (int i = n - 3; i >= 0; i--)
        work[i] = work[work[i]] + 1;
}

/* Makes codes of `limit` bits longer and shorter until all codes exist (Kraft's inequality). */
PNG_DEVICE void png_mend_lengths(uint32_t *counts, int limit)
{
    uint32_t total = 0;
    for (int length = 1; length <= limit; length++)
        total += counts[length] << (limit - length);
    for (; total > 1u << limit; total--) {
        int length = limit - 1;
        while (counts[length] == 0)
            length--;
        counts[length]--;
        counts[length + 1] += 2;
        counts[limit]--;
    }
}

/* Sets counts[1 ... limit]: how many codes have each length. work: n words */
PNG_DEVICE void png_count_lengths(const uint32_t *keys, int n, int limit, uint32_t *work,
                                  uint32_t counts[PNG_CODE_BITS_MAX + 1])
{
    for (int i = 0; i <= PNG_CODE_BITS_MAX; i++)
        counts[i] = 0;
    for (int i = 0; i < n; i++)
        work[i] = PNG_KEY_COUNT(keys[i]);
    png_tree_depths(work, n);
    int available = 1, node = n - 2;
    for (int depth = 0; available > 0; depth++) {
        int inner = 0;
        for (; node >= 0 && work[node] == (uint32_t)depth; node--)
            inner++;
        counts[depth < limit ? depth : limit] += (uint32_t)(available - inner);
        available = 2 * inner;
    }
    png_mend_lengths(counts, limit);
}

/* Sets the lengths of the keys' symbols. The rarest symbols get the longest codes. */
PNG_DEVICE void png_code_lengths(const uint32_t *keys, int n, int limit, uint32_t *work,
                                 uint8_t *lengths)
{
    uint32_t counts[PNG_CODE_BITS_MAX + 1];
    png_count_lengths(keys, n, limit, work, counts);
    int at = 0;
    for (int length = limit; length > 0; length--)
        for (uint32_t i = 0; i < counts[length]; i++)
            lengths[PNG_KEY_SYMBOL(keys[at++])] = (uint8_t)length;
}

PNG_DEVICE uint32_t png_reverse_bits(uint32_t bits, uint32_t count)
{
#ifdef __CUDA_ARCH__
    return __brev(bits) >> (32 - count);
#else
    bits = (bits >> 1 & 0x55555555u) | (bits & 0x55555555u) << 1;
    bits = (bits >> 2 & 0x33333333u) | (bits & 0x33333333u) << 2;
    bits = (bits >> 4 & 0x0F0F0F0Fu) | (bits & 0x0F0F0F0Fu) << 4;
    return __builtin_bswap32(bits) >> (32 - count);
#endif
}

/* A code: its bits in the order of the stream, and in bits 24 to 31 their number. */
#define PNG_CODE(bits, count) (png_reverse_bits(bits, count) | (uint32_t)(count) << 24)
#define PNG_CODE_BITS(code)   ((code)&0xFFFFFF)
#define PNG_CODE_COUNT(code)  ((code) >> 24)

/* Sets the codes of n symbols with these lengths; 0 for a symbol without a code. */
PNG_DEVICE void png_assign_codes(const uint8_t *lengths, int n, uint32_t *codes)
{
    uint32_t next[PNG_CODE_BITS_MAX + 1], counts[PNG_CODE_BITS_MAX + 1];
    for (int length = 0; length <= PNG_CODE_BITS_MAX; length++)
        counts[length] = 0;
    for (int i = 0; i < n; i++)
        counts[lengths[i]]++;
    counts[0] = 0;
    next[0] = 0;
    for (int length = 1; length <= PNG_CODE_BITS_MAX; length++)
        next[length] = (next[length - 1] + counts[length - 1]) << 1;
    for (int i = 0; i < n; i++) {
        uint32_t length = lengths[i];
        codes[i] = length > 0 ? PNG_CODE(next[length]++, length) : 0;
    }
}

PNG_DEVICE uint32_t png_fixed_length(uint32_t symbol)
{
    return symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8;
}

PNG_DEVICE uint32_t png_fixed_code(uint32_t symbol)
{
    uint32_t bits = symbol < 144   ? 0x30 + symbol
                    : symbol < 256 ? 0x190 + symbol - 144
                    : symbol < 280 ? symbol - 256
                                   : 0xC0 + symbol - 280;
    return PNG_CODE(bits, png_fixed_length(symbol));
}

/* ---- the header of a block with its own code ---- */

struct png_bits_out {
    uint32_t *words; /* 0 at first */
    uint32_t count;
};

PNG_DEVICE void png_put_bits(struct png_bits_out *out, uint32_t value, uint32_t count)
{
    uint32_t shift = out->count & 31, word = out->count >> 5;
    out->words[word] |= value << shift;
    if (shift + count > 32)
        out->words[word + 1] |= value >> (32 - shift);
    out->count += count;
}

/* Codes n lengths as symbols 0 to 18, and in bits 8 and up the values of their extra bits. counts:
 * how often each symbol occurs. Returns the number of tokens. */
PNG_DEVICE int png_length_tokens(const uint8_t *lengths, int n, uint32_t *tokens, uint32_t *counts)
{
    int count = 0;
    for (int i = 0; i < n;) {
        uint32_t length = lengths[i];
        int run = 1;
        while (i + run < n && lengths[i + run] == length)
            run++;
        i += run;
        if (length > 0) {
            tokens[count++] = length;
            run--;
        }
        while (run >= 3) {
            uint32_t symbol = length > 0 ? 16 : run >= 11 ? 18 : 17;
            int most = symbol == 16 ? 6 : symbol == 17 ? 10 : 138, least = symbol == 18 ? 11 : 3;
            int part = run < most ? run : most;
            tokens[count++] = symbol | (uint32_t)(part - least) << 8;
            run -= part;
        }
        for (; run > 0; run--)
            tokens[count++] = length;
    }
    for (int i = 0; i < PNG_LENGTH_CODES; i++)
        counts[i] = 0;
    for (int i = 0; i < count; i++)
        counts[tokens[i] & 255]++;
    return count;
}

/* Sets the lengths of the codes of the length symbols. */
PNG_DEVICE void png_length_code(const uint32_t counts[PNG_LENGTH_CODES],
                                uint8_t lengths[PNG_LENGTH_CODES])
{
    uint32_t keys[PNG_LENGTH_CODES], work[PNG_LENGTH_CODES] = {0};
    int n = 0;
    for (int i = 0; i < PNG_LENGTH_CODES; i++) {
        lengths[i] = 0;
        if (counts[i] == 0)
            continue;
        uint32_t key = PNG_KEY(counts[i], i);
        int at = n++;
        for (; at > 0 && keys[at - 1] > key; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
    png_code_lengths(keys, n, 7, work, lengths);
}

/* lengths: of PNG_SYMBOLS symbols, and room for two distances, which have 1 bit each: distance 1
 * and, because a decoder may refuse an incomplete code, distance 2. work: PNG_SYMBOLS + 2 words */
PNG_DEVICE void png_put_header(uint8_t *lengths, bool last, struct png_bits_out *out,
                               uint32_t *work)
{
    const uint8_t order[PNG_LENGTH_CODES] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                             11, 4,  12, 3, 13, 2, 14, 1, 15};
    uint32_t counts[PNG_LENGTH_CODES], codes[PNG_LENGTH_CODES];
    uint8_t own[PNG_LENGTH_CODES];
    int used = PNG_SYMBOLS, sent = PNG_LENGTH_CODES;
    while (used > PNG_END_OF_BLOCK + 1 && lengths[used - 1] == 0)
        used--;
    lengths[used] = lengths[used + 1] = 1;
    int tokens = png_length_tokens(lengths, used + 2, work, counts);
    lengths[used] = lengths[used + 1] = 0;
    png_length_code(counts, own);
    png_assign_codes(own, PNG_LENGTH_CODES, codes);
    while (sent > 4 && own[order[sent - 1]] == 0)
        sent--;
    png_put_bits(out, (uint32_t)last | 2 << 1, 3);
    png_put_bits(out, (uint32_t)(used - 257), 5);
    png_put_bits(out, 1, 5);
    png_put_bits(out, (uint32_t)(sent - 4), 4);
    for (int i = 0; i < sent; i++)
        png_put_bits(out, own[order[i]], 3);
    for (int i = 0; i < tokens; i++) {
        uint32_t symbol = work[i] & 255;
        png_put_bits(out, PNG_CODE_BITS(codes[symbol]), PNG_CODE_COUNT(codes[symbol]));
        if (symbol >= 16)
            png_put_bits(out, work[i] >> 8, symbol == 16 ? 2 : symbol == 17 ? 3 : 7);
    }
}

/* ---- blocks ---- */

struct png_code {
    uint32_t codes[PNG_SYMBOLS];
    uint32_t header[PNG_HEADER_WORDS]; /* the first bits of the block */
    uint32_t header_bits;
    uint32_t distance_bits; /* all 0: the code of distance 1 */
    uint32_t bits;          /* of the whole block, with the end of block */
};

/* Makes the code of a block. keys: of its symbols, and of PNG_END_OF_BLOCK, which occurs once.
 * lengths: PNG_SYMBOLS + 2 bytes. work: PNG_SYMBOLS + 2 words */
PNG_DEVICE void png_make_code(const uint32_t *keys, int n, bool last, uint8_t *lengths,
                              uint32_t *work, struct png_code *code)
{
    for (int i = 0; i < PNG_SYMBOLS + 2; i++)
        lengths[i] = 0;
    for (int i = 0; i < PNG_HEADER_WORDS; i++)
        code->header[i] = 0;
    png_code_lengths(keys, n, PNG_CODE_BITS_MAX, work, lengths);
    struct png_bits_out out = {code->header, 0};
    png_put_header(lengths, last, &out, work);
    uint32_t own = out.count, fixed = 3, extra = 0, matches = 0;
    for (int i = 0; i < n; i++) {
        uint32_t symbol = PNG_KEY_SYMBOL(keys[i]), count = PNG_KEY_COUNT(keys[i]);
        own += count * lengths[symbol];
        fixed += count * png_fixed_length(symbol);
        if (symbol > PNG_END_OF_BLOCK) {
            extra += count * png_length_bits(symbol - 257);
            matches += count;
        }
    }
    bool is_fixed = fixed + matches * 5 <= own + matches;
    code->distance_bits = is_fixed ? 5 : 1;
    code->header_bits = is_fixed ? 3 : out.count;
    code->bits = (is_fixed ? fixed : own) + matches * code->distance_bits + extra;
    if (!is_fixed) {
        png_assign_codes(lengths, PNG_SYMBOLS, code->codes);
        return;
    }
    code->header[0] = (uint32_t)last | 1 << 1;
    for (uint32_t i = 0; i < PNG_SYMBOLS; i++)
        code->codes[i] = png_fixed_code(i);
}

/* Whether a block of `bytes` that would have these bits with a code is stored: if it does not
 * become longer with the most padding, which makes 3 + 7 + 32 bits besides the bytes. So no block
 * has more than bytes * 8 + 42 bits. The length of a stored block always fits its 16 bits: see
 * PNG_BLOCK_BYTES_MAX. */
PNG_DEVICE bool png_is_stored(uint32_t bytes, uint32_t bits)
{
    return bytes * 8 + 3 + 7 + 32 <= bits;
}

/* The bit after a block that begins at a bit of the zlib stream. bits: with a code */
PNG_DEVICE uint64_t png_block_end(uint64_t at, uint32_t bytes, uint32_t bits)
{
    return png_is_stored(bytes, bits) ? (at + 3 + 7) / 8 * 8 + 32 + (uint64_t)bytes * 8 : at + bits;
}
