/*
 * encode_impl.h - the data that encode.c describes a batch with, for the kernels of encode.cu.
 *
 * A tile is the work of one block of threads: 128 blocks of a gray image, or 32 MCUs. A tile's
 * entropy-coded bits are first written to a slot in the work memory, as their position in the file
 * depends on all tiles before it. Slots are taken from the image's work memory in the order in
 * which the tiles are done.
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
/* 20 bits for DC and 26 for each AC coefficient are 1658 bits. */
#define BLOCK_WORDS_MAX 52
#define GROUP_BYTES 16 /* slots are allocated in groups of 4 words */
#define GROUP_WORDS 4
/* Tiles and pieces of headers per entry of the list of chunks. */
#define CHUNK_UNITS 8
#define HEADER_PIECE_BYTES 4096
/* A profile of the largest size that the format allows takes 16.7 MB. */
#define ENCODE_HEADER_MAX (32 * MIB)

/* The tables of codes, as offsets into one array of words. An entry is
 * (code << bits of the value) << 5 | length of code and value. */
#define CODES_AC 0      /* 256 entries: run * 16 + bits of the value */
#define CODES_DC 256    /* 16 entries: bits of the difference */
#define CODES_WORDS 272 /* of Y; Cb and Cr have a second set */
#define CODES_BYTES (2 * CODES_WORDS * sizeof(uint32_t))

/* What is known of a tile before its position in the file. */
struct encode_tile {
    uint32_t bits;
    uint32_t slot;      /* its first group */
    uint8_t head, tail; /* the first and the last 8 bits; 1-bits follow a shorter tile */
    uint16_t runs[8];   /* bytes 0xFF inside, if the file's bytes start at bit 0 to 7 of the tile */
};

/* The bytes of the file that start in a tile. */
struct encode_placement {
    uint32_t offset; /* of the first one, in the file */
    uint32_t phase;  /* bits of the tile before it, which belong to the byte of the tile before */
};

/* An image. The tables come last. */
struct encode_descriptor {
    const uint8_t *pixels;
    uint8_t *file;
    uint32_t *file_bytes;
    const uint8_t *header;
    struct encode_tile *tiles; /* this and the next two: in the image's work memory */
    struct encode_placement *placements;
    uint32_t *slots;
    uint32_t slot_groups;
    uint32_t stride, width, height;
    uint32_t row_units, row_reciprocal; /* blocks or MCUs per row; 2^32 / row_units, rounded up */
    uint32_t unit_count;                /* blocks or MCUs */
    uint32_t tile_count;
    uint32_t header_bytes;
    uint32_t more_pieces; /* of the header, after the first HEADER_PIECE_BYTES */
    uint32_t capacity;
    uint32_t slots_used; /* groups; zero before and after a launch */
    uint32_t fits;       /* set by place_tiles */
    /* Of the divisors of column c and row r: 8 * c + r. */
    alignas(JPEG_ENCODE_ALIGN) float reciprocals[2][DCT_AREA];
};

/* Up to CHUNK_UNITS units of an image, from unit `first`: its tiles, then the pieces of its header
 * after the first one. */
struct encode_chunk {
    uint32_t image, first;
};
