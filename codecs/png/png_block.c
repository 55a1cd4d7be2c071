#include "codecs/png/png_block.h"

/* ---- bits ---- */

void png_bits_put(struct png_bits *bits, uint32_t value, unsigned count)
{
    png_bits_add(bits, value, count);
}

void png_bits_align(struct png_bits *bits)
{
    png_bits_add(bits, 0, -bits->count & 7);
}

/* ---- the code ---- */

/* Counts the tokens in counts[0]. Four tables, so that equal tokens do not wait for each other. */
static void count_tokens(struct png_block *block, const struct png_tokens *tokens)
{
    uint32_t(*counts)[PNG_TOKENS] = block->counts;
    const uint16_t *at = tokens->at;
    size_t i = 0, count = tokens->count;
    memset(block->counts, 0, sizeof block->counts);
    for (; i + 4 <= count; i += 4) {
        counts[0][at[i]]++;
        counts[1][at[i + 1]]++;
        counts[2][at[i + 2]]++;
        counts[3][at[i + 3]]++;
    }
    for (; i < count; i++)
        counts[0][at[i]]++;
    for (size_t token = 0; token < PNG_TOKENS; token++)
        counts[0][token] += counts[1][token] + counts[2][token] + counts[3][token];
}

/* Sorts keys by their byte above bit `shift`; equal ones stay in order. */
static void sort_keys(const uint32_t *from, uint32_t *to, int n, int shift)
{
    uint32_t starts[257] = {0};
    for (int i = 0; i < n; i++)
        starts[(from[i] >> shift & 255) + 1]++;
    for (int i = 0; i < 256; i++)
        starts[i + 1] += starts[i];
    for (int i = 0; i < n; i++)
        to[starts[from[i] >> shift & 255]++] = from[i];
}

/* Sets keys[0], sorted. A count is less than 2^16. Returns the number of keys. */
static int make_keys(struct png_block *block)
{
    uint32_t counts[PNG_SYMBOLS], bits, value;
    memset(counts, 0, sizeof counts);
    memcpy(counts, block->counts[0], 256 * sizeof *counts);
    counts[PNG_END_OF_BLOCK] = 1;
    for (uint32_t length = 3; length <= PNG_MATCH_MAX; length++)
        counts[257 + png_length_symbol(length, &bits, &value)] += block->counts[0][256 + length];
    int n = 0;
    for (uint32_t symbol = 0; symbol < PNG_SYMBOLS; symbol++)
        if (counts[symbol] > 0)
            block->keys[0][n++] = PNG_KEY(counts[symbol], symbol);
    sort_keys(block->keys[0], block->keys[1], n, 9);
    sort_keys(block->keys[1], block->keys[0], n, 17);
    return n;
}

/* Sets the bits of each token that occurs: of a match with those of its distance. */
static void make_token_bits(struct png_block *block)
{
    const struct png_code *code = &block->code;
    for (int literal = 0; literal < 256; literal++) {
        block->token_bits[literal] = PNG_CODE_BITS(code->codes[literal]);
        block->token_lengths[literal] = (uint8_t)PNG_CODE_COUNT(code->codes[literal]);
    }
    for (uint32_t length = 3; length <= PNG_MATCH_MAX; length++) {
        if (block->counts[0][256 + length] == 0)
            continue;
        uint32_t extra, value;
        uint32_t of_length = code->codes[257 + png_length_symbol(length, &extra, &value)];
        uint32_t count = PNG_CODE_COUNT(of_length);
        block->token_bits[256 + length] = PNG_CODE_BITS(of_length) | value << count;
        block->token_lengths[256 + length] = (uint8_t)(count + extra + code->distance_bits);
    }
}

/* ---- writing ---- */

static void write_header(const struct png_code *code, struct png_bits *bits)
{
    for (uint32_t at = 0; at < code->header_bits; at += 32) {
        uint32_t left = code->header_bits - at;
        png_bits_add(bits, code->header[at / 32], left < 32 ? left : 32);
    }
}

static void write_stored(const struct png_tokens *tokens, struct png_bits *bits)
{
    png_bits_add(bits, tokens->last, 3);
    png_bits_align(bits);
    png_bits_add(bits, tokens->bytes | (~tokens->bytes & 0xFFFF) << 16, 32);
    uint8_t byte = tokens->before, *to = bits->to;
    for (size_t i = 0; i < tokens->count; i++) {
        uint32_t token = tokens->at[i];
        if (token < 256) {
            *to++ = byte = (uint8_t)token;
        } else {
            memset(to, byte, token - 256);
            to += token - 256;
        }
    }
    bits->to = to;
}

void png_block_write(struct png_block *block, const struct png_tokens *tokens, png_put_fn *put,
                     struct png_bits *bits)
{
    count_tokens(block, tokens);
    int n = make_keys(block);
    png_make_code(block->keys[0], n, tokens->last, block->lengths, block->work, &block->code);
    if (png_is_stored(tokens->bytes, block->code.bits)) {
        write_stored(tokens, bits);
        return;
    }
    make_token_bits(block);
    write_header(&block->code, bits);
    put(block, tokens->at, tokens->count, bits);
    uint32_t end = block->code.codes[PNG_END_OF_BLOCK];
    png_bits_add(bits, PNG_CODE_BITS(end), PNG_CODE_COUNT(end));
}
