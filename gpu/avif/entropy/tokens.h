/*
 * tokens.h - symbols with their contexts, as stage C passes them to stage D.
 *
 * A token is a symbol, up to 16 literal bits, or the flag that a block at the lower or right edge
 * of the frame is split, whose probability follows from that of a partition.
 */
#pragma once

#include "gpu/avif/entropy/cdfs.h"

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
enum { TOKENS_SUPERBLOCK = 8 * LEVELS + CELLS * (16 + 6 * 16 + 64) + LUMA_LEVELS + CHROMA_LEVELS };

DEVICE avif_token avif_symbol_token(uint32_t context, int symbols, int symbol)
{
    return context | (uint32_t)symbols << TOKEN_SYMBOLS | (uint32_t)symbol << TOKEN_SYMBOL;
}
