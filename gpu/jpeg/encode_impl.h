/*
 * encode_impl.h - the description of a batch of images that the kernels of encode.cu read, and the
 * data that these kernels exchange.
 *
 * A unit of an image is an 8 x 8 block of a gray image, or an MCU. A tile is the units that one
 * block of threads encodes: 128 blocks or 32 MCUs. The position of a tile's bits in the file
 * depends on all tiles before it. The bits are therefore first written to the image's work memory:
 * to cells of 16 bytes, which a tile takes when its number of bits is known.
 */
#pragma once

#include <assert.h>
#include <stdalign.h>

#include "gpu/jpeg/encode.h"

#define DCT_SIDE 8
#define DCT_AREA 64
#define GRAY_TILE_BLOCKS 128
#define COLOUR_TILE_MCUS 32
#define COLOUR_BLOCKS_MAX 6 /* per MCU */
/* A block has at most 20 bits for DC and 26 for each AC coefficient: 1658 bits. */
#define BLOCK_WORDS_MAX 52
#define CELL_BYTES      16
#define CELL_WORDS      4
/* Tiles, and pieces of the header, per struct encode_chunk. */
#define CHUNK_UNITS 8
#define HEADER_PIECE_BYTES 4096
/* A profile of the largest size that the format allows takes 16.7 MB. */
#define ENCODE_HEADER_MAX (32 * MIB)

/* The tables of Huffman codes, as offsets into one array of words. An entry is
 * (code << number of bits of the value) << 5 | number of bits of code and value. */
#define CODES_AC 0      /* 256 entries: run * 16 + bits of the value */
#define CODES_DC 256    /* 16 entries: bits of the difference */
#define CODES_WORDS 272 /* of Y; Cb and Cr have a second set */
#define CODES_BYTES (2 * CODES_WORDS * sizeof(uint32_t))

/* An encoded tile. Its position in the file is not known yet. */
struct encode_tile {
    uint32_t bits; /* their number */
    uint32_t first_cell;
    uint8_t head, tail; /* the first and the last 8 bits; a shorter tile is padded with 1-bits */
    uint16_t runs[8];   /* runs[i]: the number of bytes 0xFF in the tile, if bytes of the file start
                           at its bits i, i + 8 and so on */
};

/* The position of a tile in the file. */
struct encode_placement {
    uint32_t offset; /* of the first byte that starts in the tile */
    uint32_t phase;  /* 0 to 7: the bits before the tile in the byte in which the tile starts */
};

/* An image of a batch. */
struct encode_descriptor {
    const uint8_t *pixels;
    uint8_t *file;
    uint32_t *file_bytes;
    const uint8_t *header;
    struct encode_tile *tiles; /* this member and the next two point into the image's work memory */
    struct encode_placement *placements;
    uint32_t *cells;
    uint32_t cell_count;
    uint32_t stride, width, height;
    uint32_t row_units, row_reciprocal; /* blocks or MCUs per row; 2^32 / row_units, rounded up */
    uint32_t unit_count;                /* blocks or MCUs */
    uint32_t tile_count;
    uint32_t header_bytes;
    uint32_t more_pieces; /* pieces of HEADER_PIECE_BYTES in the header, without the first piece */
    uint32_t capacity;
    uint32_t cells_used; /* written by the kernels; 0 before and after a launch */
    uint32_t fits;       /* whether the file fits its capacity; set by place_tiles */
    /* The factors for quantising Y, and Cb and Cr. That of column c and row r is at 8 * c + r. */
    alignas(JPEG_ENCODE_ALIGN) float reciprocals[2][DCT_AREA];
};

/* Up to CHUNK_UNITS consecutive tasks of the kernels for an image, from number `first` on: its
 * tiles, and after them the pieces of its header but for the first. */
struct encode_chunk {
    uint32_t image, first;
};
