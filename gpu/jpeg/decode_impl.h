/*
 * decode_impl.h - the descriptors of images that the kernels of the JPEG decoder read, and the data
 * that these kernels exchange.
 *
 * The decoder has four stages, each in a file decode_STAGE.cu:
 *
 *     stream    removes stuffed bytes and restart markers from the file; writes words
 *     huffman   finds the state of the Huffman decoder at many positions of the words
 *     blocks    decodes the words from these positions, adds up DC, and writes samples (with
 *               4:4:4 pixels); or transforms the coefficients of a progressive file
 *     colour    upsamples and converts samples to pixels
 *
 * Huffman codes must be decoded one after the other, unless the decoder's state in the middle of
 * the data is known. The data is therefore divided as follows:
 *
 *     segment       the data between two restart markers; without restart markers, all data
 *     subsequence   descriptor.sub_words words of a segment, or its shorter rest. In the stage
 *                   huffman one thread decodes it to find the states ("sub" in names)
 *     piece         DECODE_PIECE_BITS bits of a subsequence. Its record is the state at its start,
 *                   from which a thread of the stage blocks decodes it
 *
 * Each kernel runs one block of threads for each of these units:
 *
 *     chunk         DECODE_CHUNK_BYTES bytes of the file
 *     span          as many subsequences as a block has threads, without the halo: the subsequences
 *                   before the span that its block of threads also decodes, so that the states are
 *                   usually right at the start of the span
 *     tile          the MCUs whose 8 x 8 blocks a block of threads transforms, one per thread; only
 *                   those up to the last MCU that is needed
 *     group set     8 groups of coefficients (coefficients.h), only for progressive files
 *     band          DECODE_COLOUR_THREADS runs of DECODE_COLOUR_PIXELS pixels, in one row or in
 *                   two; only in the part that is needed
 */
#pragma once

#include "gpu/jpeg/decode.h"

/* Bytes of the file per block of threads, and per thread, in the stage stream. */
#define DECODE_CHUNK_BYTES 4096
#define DECODE_THREAD_BYTES 32

#define DECODE_PIECE_BITS       68
#define DECODE_SPAN_THREADS_MAX 512
/* Subsequences per span, at least. */
#define DECODE_SPAN_SUBS_MIN 112
/* Blocks that end in a subsequence: fewer, because decode_device.h counts them in 11 bits. */
#define DECODE_SUB_BLOCKS_MAX 2048
/* A thread guesses the state at the start of its subsequence: it begins to decode this many words
 * before it. */
#define DECODE_WARM_UP_WORDS 8

/* DECODE_LOOKUP_BITS bits index the first lookup of a symbol. Longer codes need a second lookup, in
 * up to DECODE_LONG_MAX entries per Huffman table. That number is enough: codes are ordered by
 * length. A prefix of DECODE_LOOKUP_BITS bits whose codes all have the same length, and are all in
 * use, needs as many entries as it has codes: 256 for all of them. At most 7 prefixes are
 * different: one for each increase of the length from 10 to 16, and the last one. Each needs up to
 * 64 entries. */
#define DECODE_LOOKUP_BITS 10
#define DECODE_LOOKUP (1 << DECODE_LOOKUP_BITS)
#define DECODE_LONG_MAX (256 + 7 * 64)
/* The Huffman tables of an image: DC and AC of Y, DC and AC of Cb and Cr. */
#define DECODE_TABLES 4
#define DECODE_SINGLE_WORDS (DECODE_TABLES * DECODE_LOOKUP)
/* Shared memory of a block of `synchronise`, in bytes, at most: tables, words, and 5 arrays. */
#define DECODE_SPAN_WORDS(threads, sub_words) ((threads) * (sub_words) + DECODE_WARM_UP_WORDS + 8)
#define DECODE_SPAN_BYTES(threads, sub_words)                                                      \
    ((DECODE_SINGLE_WORDS + DECODE_SPAN_WORDS(threads, sub_words) + 5 * (threads)) *               \
     sizeof(uint32_t))
#define DECODE_SPAN_BYTES_MAX (64 << 10)
#define DECODE_SET_WORDS (2 * DECODE_SINGLE_WORDS + DECODE_TABLES * DECODE_LONG_MAX)

/* The 8 x 8 blocks of a tile, at most; each has a thread. */
#define DECODE_TILE_BLOCKS 256

/* The largest dequantised coefficient. Up to it, libjpeg-turbo's inverse DCTs in C and with SIMD
 * instructions give the same samples (idct.h). Encoders write at most 1024 plus half a
 * quantiser. */
#define DECODE_RANGE_MAX 1700

/* Pixels of a run in a row, and threads per block, in the stage colour. */
#define DECODE_COLOUR_PIXELS 8
#define DECODE_COLOUR_THREADS 256

enum decode_upsampling { UPSAMPLE_NONE, UPSAMPLE_REPEAT, UPSAMPLE_FANCY };

/* The part of an image's state that the kernels write. */
struct decode_run {
    uint32_t verdict;    /* enum jpeg_decode_verdict; unless 0, the later kernels skip the image */
    uint32_t data_bytes; /* of descriptor.words */
    uint32_t subs;       /* number of subsequences */
    uint32_t padding;
};

/* The samples of a component. */
struct decode_plane {
    uint8_t *samples;
    uint32_t pitch;
    uint32_t width, height;             /* the samples that belong to the image */
    uint32_t store_width, store_height; /* The samples that are written. They include blocks that
                                           pad MCUs, if the file is sequential and not gray. */
};

struct decode_descriptor {
    const uint8_t *data;  /* in the file, aligned to 16 */
    uint32_t skip, bytes; /* data[skip] to data[bytes - 1]: from the start of the entropy-coded data
                             to the end of the file */
    uint32_t *verdict;    /* jpeg_decode_image.verdict */
    const uint32_t *tables; /* DECODE_SET_WORDS words of lookup tables (decode_tables.h) */
    struct decode_run *run;
    uint32_t *chunk_counts; /* 2 words per chunk: see decode_stream.cu */
    uint32_t *words;        /* the data without stuffed bytes and markers, as words whose most
                               significant byte comes first */
    uint32_t *segment_at;   /* segments + 1: where the segment starts in `words`, in bytes */
    uint32_t *segment_subs; /* segments + 1: the segment's first subsequence; unused if there is one
                               segment */
    uint32_t *sub_places;   /* 2 words per subsequence: its first bit, its segment; likewise */
    uint32_t *sub_states;   /* per subsequence: the state after it (decode_device.h) */
    uint32_t *sub_blocks;   /* per subsequence: the number of its first block in the image */
    uint32_t *records;      /* per piece of all subsequences: the state before it */
    uint32_t *span_entries; /* Per span: 1 + the state from which its first subsequence was decoded;
                               0: a segment starts there. */
    uint32_t *span_counts;  /* 2 words per span: the blocks since the last start of a segment in the
                               span, or since the span's start; whether a segment starts in it */
    uint32_t *span_blocks;  /* per span: the blocks of its first segment before the span */
    uint32_t *tile_pieces;  /* tiles + 1: the first piece that starts in the tile */
    uint64_t *tile_sums;    /* per tile: the sums of DC differences (decode_blocks.cu) */
    uint32_t subs_max;
    uint32_t sub_words, pieces_at; /* words of a subsequence; it has 1 << pieces_at pieces */
    uint32_t chunks, spans, tiles, group_sets, bands; /* numbers of these units */
    uint32_t width_mcus, mcus, tile_mcus;             /* MCUs per row, in the image, and per tile */
    uint32_t segments, segment_mcus;                  /* number of segments, MCUs per segment */
    uint8_t h, v;                 /* sampling factors of Y, if those of Cb and Cr are 1 */
    uint8_t luma, blocks;         /* per MCU: blocks of Y (h * v), and all blocks */
    uint8_t components;           /* that are needed: 1 or 3 */
    uint8_t side[JPEG_COMPONENTS_MAX]; /* of a block's samples: 8, 4, 2 or 1 */
    uint8_t up_h, up_v;           /* whether Cb and Cr are upsampled across, down */
    uint8_t upsampling;           /* enum decode_upsampling */
    uint8_t run_rows;             /* the rows of a run of pixels in the stage colour: 1 or 2 */
    uint8_t rgb;                  /* whether the result is RGB; otherwise Y, Cb and Cr */
    uint8_t fused;                /* A sequential file with 4:4:4 at full size: the stage blocks
                                     writes pixels, without planes and bands. */
    uint8_t gathers;              /* So many MCUs are not needed that the stage blocks gathers the
                                     blocks of the others. */
    /* What is needed for jpeg_decode_image.needed: */
    uint32_t run_x, run_y;         /* the first pixel of the first run */
    uint32_t runs_across, end_y;   /* runs per row; the row after the last one */
    struct image_part needed_mcus; /* in MCUs; also the neighbours of samples that are needed */
    uint32_t end_mcu;              /* the MCU after the last one of them */
    struct decode_plane planes[JPEG_COMPONENTS_MAX];
    struct image image;
    uint16_t quant[JPEG_COMPONENTS_MAX][64]; /* in zigzag order */
    /* Only for progressive files (coefficients.h): */
    const int16_t *coefficients[JPEG_COMPONENTS_MAX];
    const uint32_t *input_verdict; /* 0: the coefficients are valid; NULL: a sequential file */
    uint32_t across[JPEG_COMPONENTS_MAX], component_blocks[JPEG_COMPONENTS_MAX]; /* in blocks */
};

/* A distinct set of Huffman tables of the batch. */
struct decode_table_set {
    uint32_t *to;   /* where the lookup tables are built: descriptor.tables of the first image */
    uint32_t count; /* 2 or DECODE_TABLES */
    struct jpeg_huffman huffman[DECODE_TABLES];
};

/* The units for which kernels run a block of threads: see above. */
enum decode_kind {
    DECODE_CHUNKS,
    DECODE_SPANS,
    DECODE_TILES,
    DECODE_GROUP_SETS,
    DECODE_BANDS,
    DECODE_KINDS
};

/* The arguments of all kernels. */
struct decode_args {
    const struct decode_descriptor *images;
    const struct decode_table_set *sets;
    const uint32_t *starts[DECODE_KINDS]; /* image i has the units starts[k][i] to
                                             starts[k][i + 1] - 1 of kind k */
    uint32_t image_count, set_count;
    uint32_t span_threads, halo;
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
/* Returns the arguments of the kernels. descriptors: the device's copy. */
struct decode_args decode_args_of(const struct jpeg_decode_batch *batch, const void *descriptors);

#ifdef __cplusplus
}
#endif
