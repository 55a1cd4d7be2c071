/*
 * decode_impl.h - the data that decode.c describes a batch with, and that its kernels exchange.
 *
 *     stream    removes stuffed bytes and restart markers: file -> words
 *     huffman   finds the decoder's state at each piece boundary: words -> records, first blocks
 *     blocks    decodes again, with DC and inverse DCT: records, or coefficients -> samples
 *     colour    upsamples and converts: samples -> pixels
 *
 * A segment is the data between two restart markers, or all of it. A subsequence is DECODE_SUB_BITS
 * of a segment, or what is left of it, and one thread decodes it while synchronising. It has
 * DECODE_PIECES pieces, which different threads decode again to write coefficients. A span is the
 * subsequences of a block of threads, a tile the MCUs of a block of threads.
 */
#pragma once

#include "gpu/jpeg/decode.h"

/* Bytes of the file per block of threads, and per thread. */
#define DECODE_CHUNK_BYTES 4096
#define DECODE_THREAD_BYTES 32

/* An odd number of words: threads at the same position of neighbouring subsequences then read
 * different banks of shared memory. */
#define DECODE_SUB_WORDS 17
#define DECODE_SUB_BITS (DECODE_SUB_WORDS * 32)
#define DECODE_PIECES 4
#define DECODE_PIECE_BITS (DECODE_SUB_BITS / DECODE_PIECES)
/* Subsequences before a span that its block decodes, too, to be in step at its start. */
#define DECODE_HALO 16
#define DECODE_SPAN_THREADS_MAX 512
#define DECODE_SPAN_THREADS_MIN 128
/* Words before a subsequence from which a thread starts with a guessed state. */
#define DECODE_WARM_UP_WORDS 24

/* Bits that index the first lookup, and entries of the second lookups of a table. The codes of a
 * table are in the order of their lengths. A prefix of DECODE_LOOKUP_BITS bits whose codes all have
 * length L, and that are all in use, has as many entries as codes. Prefixes with codes of different
 * lengths, or with unused codes, are at most 7, one for each increase of the length from 10 to 16
 * and the last one, of up to 64 entries. So 256 + 7 * 64 entries are enough. */
#define DECODE_LOOKUP_BITS 10
#define DECODE_LOOKUP (1 << DECODE_LOOKUP_BITS)
#define DECODE_LONG_MAX (256 + 7 * 64)
/* Y's DC and AC, then those of Cb and Cr. */
#define DECODE_TABLES 4
#define DECODE_SINGLE_WORDS (DECODE_TABLES * DECODE_LOOKUP)
#define DECODE_SET_WORDS (2 * DECODE_SINGLE_WORDS + DECODE_TABLES * DECODE_LONG_MAX)

/* Blocks of threads of the kernel that writes samples, one thread per 8 x 8 block. */
#define DECODE_TILE_BLOCKS 256

/* Coefficients, times their quantiser, up to which all functions of libjpeg-turbo give the same
 * samples if no sample is limited (idct.h). Images have up to 1024, plus half a quantiser. */
#define DECODE_RANGE_MAX 1700

/* Pixels per thread, and rows and groups of such pixels per block of threads, of the colour
 * kernel. */
#define DECODE_COLOUR_PIXELS 8
#define DECODE_COLOUR_THREADS 256

enum decode_upsampling { UPSAMPLE_NONE, UPSAMPLE_REPEAT, UPSAMPLE_FANCY };

/* Written by the device. */
struct decode_run {
    uint32_t verdict;
    uint32_t data_bytes; /* without stuffed bytes and markers */
    uint32_t subs;
    uint32_t padding;
};

/* Plane of samples of a component. */
struct decode_plane {
    uint8_t *samples;
    uint32_t pitch;
    uint32_t width, height; /* samples that exist; those beyond are written if `padded` */
    uint32_t store_width, store_height; /* multiples of the block's side: blocks to write */
};

struct decode_descriptor {
    const uint8_t *data;  /* in the file, aligned to 16 */
    uint32_t skip, bytes; /* the entropy-coded data is data[skip] to data[bytes - 1], at most */
    uint32_t *verdict;    /* of the caller */
    const uint32_t *tables;
    struct decode_run *run;
    uint32_t *chunk_counts; /* 2 words per chunk */
    uint32_t *words;        /* data without stuffed bytes, most significant byte first */
    uint32_t *segment_at;   /* segments + 1 byte offsets in the data */
    uint32_t *segment_subs; /* segments + 1: first subsequence; only if there are several */
    uint32_t *sub_places;   /* 2 words per subsequence: first bit, segment; likewise */
    uint32_t *sub_states;   /* state after the subsequence */
    uint32_t *sub_blocks;   /* number of the first block */
    uint32_t *records;      /* DECODE_PIECES per subsequence: state before the piece */
    uint32_t *span_entries; /* 1 + the state that the first subsequence of the span started with */
    uint32_t *span_counts;  /* 2 words: blocks since the start of the last segment in the span, or
                               since the span's start; whether a segment starts in it */
    uint32_t *span_blocks;  /* blocks of the segment before the span */
    uint32_t *tile_pieces;  /* tiles + 1: first piece that starts in the tile */
    uint64_t *tile_sums;    /* DC sums: see blocks */
    uint32_t subs_max;
    uint32_t chunks, spans, tiles, groups, bands;
    uint32_t width_mcus, mcus, tile_mcus;
    uint32_t segments, segment_mcus;
    uint8_t h, v;                 /* blocks of Y per MCU: h * v */
    uint8_t luma, blocks;         /* h * v; blocks per MCU */
    uint8_t components;           /* that are needed: 1 or 3 */
    uint8_t side[JPEG_COMPONENTS_MAX]; /* of a block's samples: 8, 4, 2 or 1 */
    uint8_t up_h, up_v;           /* whether Cb and Cr are upsampled across, down */
    uint8_t upsampling;           /* enum decode_upsampling */
    uint8_t rgb;
    struct decode_plane planes[JPEG_COMPONENTS_MAX];
    struct image image;
    uint16_t quant[JPEG_COMPONENTS_MAX][64]; /* in zigzag order */
    /* Only if the input is coefficients (coefficients.h). */
    const int16_t *coefficients[JPEG_COMPONENTS_MAX];
    const uint32_t *input_verdict; /* 0: the coefficients are valid */
    uint32_t across[JPEG_COMPONENTS_MAX], component_blocks[JPEG_COMPONENTS_MAX];
};

/* A distinct set of Huffman tables of the batch. */
struct decode_table_set {
    uint32_t *to;
    uint32_t count; /* 2 or DECODE_TABLES */
    struct jpeg_huffman huffman[DECODE_TABLES];
};

/* Kinds of blocks of threads: the blocks of image i of kind k are starts[k][i] to
 * starts[k][i + 1] - 1. */
enum decode_kind {
    DECODE_CHUNKS,
    DECODE_SPANS,
    DECODE_TILES,
    DECODE_GROUPS,
    DECODE_BANDS,
    DECODE_KINDS
};

/* Args of all kernels. */
struct decode_args {
    const struct decode_descriptor *images;
    const struct decode_table_set *sets;
    const uint32_t *starts[DECODE_KINDS];
    uint32_t image_count, set_count;
    uint32_t span_threads;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Launch the kernels of one stage, and return a cudaError_t. */
int decode_launch_stream(const struct jpeg_decode_batch *batch, const struct decode_args *args,
                         struct CUstream_st *stream);
int decode_launch_huffman(const struct jpeg_decode_batch *batch, const struct decode_args *args,
                          struct CUstream_st *stream);
int decode_launch_blocks(const struct jpeg_decode_batch *batch, const struct decode_args *args,
                         struct CUstream_st *stream);
int decode_launch_colour(const struct jpeg_decode_batch *batch, const struct decode_args *args,
                         struct CUstream_st *stream);
/* Fills the args from the device's copy of the descriptors. */
struct decode_args decode_args_of(const struct jpeg_decode_batch *batch, const void *descriptors);

#ifdef __cplusplus
}
#endif
