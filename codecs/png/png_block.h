/*
 * png_block.h - writes tokens as a block of deflate (png_tiles.h).
 */
#pragma once

#include <string.h>

#include "codecs/png/png_tiles.h"

#define PNG_INLINE static inline __attribute__((always_inline, unused))

/* Literals, and matches of each length. */
#define PNG_TOKENS (256 + PNG_MATCH_MAX + 1)

/* Where bits go. The buffer has 8 bytes of room after the last bit. */
struct png_bits {
    uint8_t *to;
    uint64_t held;  /* bits that are not yet in *to */
    unsigned count; /* of them, fewer than 8 */
};

/* count: at most 56 */
PNG_INLINE void png_bits_add(struct png_bits *bits, uint64_t value, unsigned count)
{
    uint64_t held = bits->held | value << bits->count;
    count += bits->count;
    bits->held = held >> (count & 56);
    bits->count = count & 7;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    held = __builtin_bswap64(held);
#endif
    memcpy(bits->to, &held, sizeof held);
    bits->to += count >> 3;
}

void png_bits_put(struct png_bits *bits, uint32_t value, unsigned count);
/* Continues at the next byte. */
void png_bits_align(struct png_bits *bits);

/* Memory for one block. */
struct png_block {
    uint32_t counts[4][PNG_TOKENS];
    uint32_t keys[2][PNG_SYMBOLS];
    uint32_t work[PNG_SYMBOLS + 2];
    uint8_t lengths[PNG_SYMBOLS + 2];
    struct png_code code;
    uint32_t token_bits[PNG_TOKENS];
    uint8_t token_lengths[PNG_TOKENS];
};

/* The tokens of a block. */
struct png_tokens {
    const uint16_t *at;
    size_t count;   /* at most PNG_JOINED_TOKENS_MAX, or PNG_TILE_BYTES of one tile */
    uint32_t bytes; /* of the stream */
    uint8_t before; /* the byte of the stream before them */
    bool last;
};

/* Writes the codes of tokens: a kernel (png_kernels.h). */
typedef void png_put_fn(const struct png_block *block, const uint16_t *tokens, size_t count,
                        struct png_bits *bits);

/* Such a kernel for any target. Four tokens at a time, if they have at most 56 bits: a token has at
 * most 20. */
PNG_INLINE void png_put_any(const struct png_block *block, const uint16_t *tokens, size_t count,
                            struct png_bits *to)
{
    const uint32_t *values = block->token_bits;
    const uint8_t *lengths = block->token_lengths;
    struct png_bits bits = *to; /* in registers */
    const uint16_t *at = tokens, *end = at + count;
    for (; end - at >= 4; at += 4) {
        unsigned a = at[0], b = at[1], c = at[2], d = at[3];
        unsigned ab = (unsigned)lengths[a] + lengths[b], cd = (unsigned)lengths[c] + lengths[d];
        uint64_t value_ab = values[a] | (uint64_t)values[b] << lengths[a];
        uint64_t value_cd = values[c] | (uint64_t)values[d] << lengths[c];
        if (__builtin_expect(ab + cd > 56, 0)) {
            png_bits_add(&bits, value_ab, ab);
            png_bits_add(&bits, value_cd, cd);
        } else {
            png_bits_add(&bits, value_ab | value_cd << ab, ab + cd);
        }
    }
    for (; at < end; at++)
        png_bits_add(&bits, values[*at], lengths[*at]);
    *to = bits;
}

/* Writes at most PNG_BLOCK_BYTES_MAX bytes. */
void png_block_write(struct png_block *block, const struct png_tokens *tokens, png_put_fn *put,
                     struct png_bits *bits);
