/*
 * tokens.h - symbols with their contexts, as stage C passes them to stage D.
 *
 * A token is a symbol, up to 16 literal bits, or the flag that a block at the lower or right edge
 * of the frame is split, whose probability follows from that of a partition.
 */
#pragma once

#include "gpu/avif/entropy/cdfs.h"
#include "gpu/avif/predict/palette.h"

/* Bits 0 to 15: the first entry of the context in struct avif_cdfs, or the literal bits. 16 to 20:
 * the number of symbols; 0: literal bits; 1: a flag. 21 to 25: the symbol; the number of literal
 * bits; or of a flag, an avif_edge_split. */
typedef uint32_t avif_token;

/* The flags split_or_horz at the lower edge, and split_or_vert at the right one. They are always
 * set. */
enum avif_edge_split { SPLIT_OR_HORZ, SPLIT_OR_VERT };

enum { TOKEN_SYMBOLS = 16, TOKEN_SYMBOL = 21, LITERAL_BITS_MAX = 16 };

/* A superblock has at most so many tokens: of a coefficient 1 + 4 for the level, 1 for the sign and
 * 2 for the rest; of a block of 8 x 8, 16 for the modes, 16 for the ends of 6 transforms, and 64
 * for palettes without their indices. */
enum {
    TOKENS_SUPERBLOCK = 8 * (LUMA_LEVELS + 2 * CHROMA_LEVELS) + CELLS * (16 + 6 * 16 + 64) +
                        LUMA_LEVELS + CHROMA_LEVELS
};

DEVICE avif_token avif_symbol_token(uint32_t context, int symbols, int symbol)
{
    return context | (uint32_t)symbols << TOKEN_SYMBOLS | (uint32_t)symbol << TOKEN_SYMBOL;
}

/* What later blocks of a tile need for the contexts of coefficients, for each 4 x 4 samples. */
struct avif_level_context {
    uint8_t sum;     /* of levels, up to 63 */
    uint8_t dc_sign; /* 0: the DC level is 0; 1: negative; 2: positive */
};

/* Stage C of a tile. */
struct avif_tokeniser {
    const struct avif_encoder *encoder;
    struct avif_bounds tile;
    struct avif_level_context *above[PLANES];   /* by 4 columns of the plane */
    struct avif_level_context left[PLANES][16]; /* by 4 rows of the superblock */
    struct avif_palette (*palettes_above)[PALETTES]; /* by 8 columns */
    struct avif_palette palettes_left[8][PALETTES];  /* by 8 rows */
    avif_token *tokens;
    size_t count;
};

/* Begins a row of superblocks. */
void avif_tokenise_row(struct avif_tokeniser *to);
/* Appends the tokens of a partition into four blocks or none at (x, y); at the edge of the frame,
 * of the flag, or none. */
void avif_tokenise_partition(struct avif_tokeniser *to, int x, int y, int size, bool split);
void avif_tokenise_block(struct avif_tokeniser *to, int x, int y);
