/*
 * png_block.h - writes tokens as a block of deflate (png_tiles.h).
 */
#pragma once

#include "codecs/png/png_tiles.h"

/* Literals, and matches of each length. */
#define PNG_TOKENS (256 + PNG_MATCH_MAX + 1)

/* Where bits go. The buffer has 8 bytes of room after the last bit. */
struct png_bits {
    uint8_t *to;
    uint64_t held;  /* bits that are not yet in *to */
    unsigned count; /* of them, fewer than 8 */
};

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
    uint64_t token_bits[PNG_TOKENS];
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

/* Writes at most PNG_BLOCK_BYTES_MAX bytes. */
void png_block_write(struct png_block *block, const struct png_tokens *tokens,
                     struct png_bits *bits);
