/*
 * encode_impl.h - the description of a batch of images that the kernels of encode.cu read, and the
 * data that these kernels exchange.
 *
 * The work memory of an image has the filtered stream, data of each tile (png_tiles.h), and the
 * zlib stream. The tiles of the filtered stream begin at aligned addresses, tile_stride bytes
 * apart, or the tiles of a long row: so tiles of odd lengths, too, can be read 16 bytes at a time.
 */
#pragma once

#include "codecs/png/png_tiles.h"
#include "gpu/png/crc.h"
#include "gpu/png/encode.h"

/* Groups of rows, tiles, and pieces of the file per struct png_encode_chunk. */
#define CHUNK_GROUPS 8
#define CHUNK_TILES  8
#define CHUNK_PIECES 8
/* A block of threads filters a group of rows. Rows of more than half a tile are a group each, so
 * that images with few of them are filtered by many threads. */
#define GROUP_ROWS 8

/* Around the contents of an IDAT chunk: length and type, and the CRC. */
#define IDAT_HEAD_BYTES   8
#define IDAT_CRC_BYTES    4
#define IDAT_BYTES_AROUND (IDAT_HEAD_BYTES + IDAT_CRC_BYTES)
#define IEND_BYTES        12
#define ADLER_BYTES       4
#define ADLER_BASE        65521u
/* The header of the zlib stream. */
#define ZLIB_HEAD_BITS 16
/* Bytes of the header of the file that a block of threads copies. */
#define HEADER_PIECE_BYTES 65536

/* Words that advance a CRC by 4 bytes: of byte i of the CRC, at 256 * i. */
#define CRC_ADVANCE_WORDS 1024

/* Powers of x, for CRCs. The kernels make them. */
struct png_encode_powers {
    uint32_t word[CRC_ADVANCE_WORDS]; /* advances by 4 bytes */
    uint32_t row[CRC_ADVANCE_WORDS];  /* by 4 bytes, and CRC_THREADS - 1 units of 16 bytes */
    uint32_t units[CRC_THREADS];      /* x^(128 * (CRC_THREADS - 1 - i)) */
};

/* How often a tile has each literal, and each length code from 257 on. */
struct png_encode_counts {
    uint32_t of[PNG_SYMBOLS + 2];
};

struct png_encode_tile {
    uint64_t at;              /* its first bit in the zlib stream */
    uint32_t tokens, run_min; /* run_min: of its matches */
    uint32_t adler1, adler2;  /* sums of its bytes, and of each byte times the bytes from it on */
    uint32_t head;            /* the first tile of its block */
    uint32_t bits_before, bytes_before; /* of the block, before the tile */
    uint32_t block_bits, block_bytes;   /* of the block, if the tile is its head */
};

/* An image of a batch. */
struct png_encode_descriptor {
    const uint8_t *pixels, *header;
    uint8_t *file;
    uint32_t *file_bytes;
    uint8_t *stream; /* this member and the next four point into the image's work memory */
    struct png_encode_tile *tiles;
    struct png_encode_counts *counts; /* per tile */
    struct png_code *codes;           /* per tile; of heads of blocks */
    uint32_t *bits;                   /* the zlib stream */
    uint64_t stream_bytes;
    uint64_t end_bit; /* after the last block of the zlib stream: set by place_tiles */
    uint32_t stride, width, height, channels;
    uint32_t row_bytes;  /* of the filtered stream */
    uint32_t group_rows; /* 1 or GROUP_ROWS */
    uint32_t tile_rows;  /* 0: a row has row_tiles tiles */
    uint32_t row_tiles;
    uint32_t tile_count;
    uint32_t tile_stride, row_stride; /* row_stride: from a long row to the next */
    uint32_t header_bytes, header_pieces;
};

/* Consecutive tasks of a kernel for an image, from number `first` on: rows, tiles, or pieces of the
 * file. A piece is a piece of the header, or a possible IDAT chunk. */
struct png_encode_chunk {
    uint32_t image, first;
};
