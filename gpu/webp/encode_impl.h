/*
 * encode_impl.h - the description of a batch of images that the kernels of encode.cu read, and the
 * data that these kernels exchange.
 */
#pragma once

#include "codecs/quality_search.h"
#include "gpu/webp/encode.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEBP_SEGMENTS 4
/* The probabilities of the coefficients' tokens: 4 types, 8 bands, 3 contexts, 11 per context. */
#define WEBP_PROBABILITIES 1056
/* Levels of a macroblock in coding order: 16 of the luma DC block, 16 per luma block, 16 per chroma
 * block (U, then V). */
#define WEBP_LEVELS        400
#define WEBP_LEVELS_LUMA   16
#define WEBP_LEVELS_CHROMA 272

/* The 384 coefficients of a macroblock have 19 tokens each at most, and its 25 blocks have one
 * more. */
#define WEBP_TOKENS_MACROBLOCK 7424
#define WEBP_TOKENS_SMALL      (16 * WEBP_TOKENS_MACROBLOCK)
/* Tokens of the header of the frame, and of the modes of a macroblock, in the first partition. */
#define WEBP_TOKENS_HEADER 12288
#define WEBP_TOKENS_MODES  144
/* Macroblocks whose tokens a block of threads counts and writes. Each of their coefficients and
 * blocks adds at most 1 to a counter of libwebp's statistics. So a counter is halved at most once
 * per group (statistics.h). */
#define WEBP_GROUP 64
/* A chunk is a run of tokens that the boolean coder codes independently of others. A batch has
 * chunks of about 256, 512 or 1,024 tokens. Short chunks need more work in all, but give small
 * batches more threads. Chunk i begins within the window of WEBP_CHUNK_WINDOW tokens from token
 * i * chunk_tokens on: after the token of the window that leaves the fewest ranges
 * (bool_coder.h). */
#define WEBP_CHUNK_TOKENS_MIN 256
#define WEBP_CHUNK_TOKENS_MAX 1024
#define WEBP_CHUNK_WINDOW     256
/* States of the boolean coder between two tokens. */
#define WEBP_RANGES 128
/* Index in webp_partition.code of a chunk's first word. first: the chunk's first token. A token has
 * at most 7 bits, which is less than a quarter of a word. The 6 words are for the 8 bits that a
 * code has more, for words that are only partly filled, and for the rounding of first / 4. */
#define WEBP_CHUNK_WORD(first, chunk) ((size_t)(first) / 4 + (size_t)(chunk)*6)
/* A task is the chunks that a warp maps and codes. The chunks in the first WEBP_HEAD_TOKENS tokens
 * of the modes are a task each: most are of the header of the frame, where a chunk may start with
 * almost any range. */
#define WEBP_TASK_CHUNKS 32
#define WEBP_HEAD_TOKENS 4096
/* Bytes of the file that a block of threads writes. */
#define WEBP_PIECE_BYTES 4096

/* A quantiser: [0] for the DC coefficient, [1] for the others. */
struct webp_quantiser {
    int step[2], reciprocal[2], bias[2]; /* reciprocal and bias: with 17 fractional bits */
};

struct webp_segment {
    struct webp_quantiser y1, y2, uv;
    int sharpen[16];
    int quant, filter;    /* in the header of the frame */
    uint32_t penalty_4x4; /* of luma blocks that are predicted separately */
};

/* The luma of a coded macroblock. */
struct webp_luma {
    uint64_t modes;   /* 4 bits per 4 x 4 block; 16 x 16 prediction: its mode in each of them */
    uint32_t nonzero; /* bit b: block b has levels; bit 24: the DC block has some */
    uint32_t is_16x16;
};

/* Chroma: bits 0 to 3: blocks of U with levels; 4 to 7: of V; from bit 8: the mode. */
typedef uint16_t webp_chroma;

/* Modes: DC 0, TM 1, VE 2, HE 3; of 4 x 4 blocks also RD 4, VR 5, LD 6, VL 7, HD 8, HU 9. */

/* What the analysis of the whole image determines: set by the kernel choose_segments. */
struct webp_frame {
    struct webp_segment segments[WEBP_SEGMENTS];
    uint8_t segment_of[256]; /* of a macroblock with this alpha */
    uint32_t segment_count;
    uint32_t updates_map; /* the header has the segments of the macroblocks */
    uint32_t segment_probabilities[3];
    uint32_t uses_statistics; /* false with one segment: see set_segment_probabilities */
    int filter_level, base_quant, uv_dc_delta, uv_ac_delta;
    int header_bits_max; /* of the modes of a macroblock's 4 x 4 blocks */
};

/* The reconstructed samples at the bottom of a macroblock, which the row of macroblocks below
 * needs. Each word has 4 samples, from bit 32 the mode of the luma block, and bit 63 as soon as it
 * is valid. Luma: 4 words; chroma: 2 of U, then 2 of V. */
#define WEBP_EDGE_WORDS 4
#define WEBP_EDGE_VALID ((uint64_t)1 << 63)

/* What the tokens of a group of macroblocks count. */
struct webp_group_counts {
    uint32_t coefficients, modes; /* tokens of both partitions; later the positions of the first */
    uint32_t skipped, skipped_tokens; /* macroblocks without levels, and their tokens */
    uint32_t of[WEBP_PROBABILITIES];  /* in the upper half: tokens with this probability; in the
                                         lower half: those of them that are 1 */
};

/* libwebp halves the counter of a probability, which is full after `left` tokens of a group. */
struct webp_halving {
    uint32_t probability, group, left;
    uint32_t ones; /* how many of the counter's tokens before the halving are 1 */
};

/* A chunk of tokens, and its code: a number of 8 + `bits` bits. The partition is the sum of these
 * numbers, because the upper 8 bits of each overlap the lowest 8 bits of the number before. */
struct webp_chunk {
    uint32_t first;                  /* token */
    uint32_t start_range, end_range; /* 128 to 255 */
    uint32_t bits, at;               /* at: of the number's first bit in the partition */
    uint32_t top; /* the upper 8 bits, until they are added to the chunk before */
};

/* The tokens of a partition, and their code. A token is a bit and the probability of 0, see
 * tokens.h. */
struct webp_partition {
    uint16_t *tokens;
    struct webp_chunk *chunks;
    uint8_t *ranges; /* WEBP_RANGES per chunk: the range at its end for each one at its start, less
                        128; unset for those that cannot be at its start */
    uint32_t *code;  /* of each chunk from WEBP_CHUNK_WORD on; the first bit is the highest */
    uint32_t token_room, token_count, chunk_count;
    uint32_t bit_count, byte_count;
};

/* What the images of a batch share. The host writes the tables. */
struct webp_encode_common {
    uint32_t linear[256]; /* of a sample: its linear value of 12 bits */
    uint32_t gamma[33];   /* the samples of 33 sums of four linear values, 512 apart */
    uint32_t rows_taken;  /* by choose_modes; reset by import */
    /* Reset by count_tokens. */
    uint32_t task_count, piece_count;
};

/* Consecutive macroblocks of an image, from number `first` on; chunks of a partition; or pieces of
 * a file. The host writes the groups of macroblocks, and the kernels write the others. */
struct webp_part {
    uint32_t image, first;
};
/* In webp_part.first: the chunks are those of the modes. */
#define WEBP_PART_MODES 0x80000000u

/* An image of a batch. The pointers after file_bytes point into the image's work memory. */
struct webp_encode_descriptor {
    const uint8_t *pixels, *header;
    uint8_t *file;
    uint32_t *file_bytes;
    uint8_t *y, *u, *v;     /* planes of whole macroblocks: 16 * columns bytes per row of
                               y, 8 * columns of u and v */
    uint8_t *alphas;        /* of each macroblock: its susceptibility to quantisation */
    uint32_t *alpha_counts; /* 256 */
    struct webp_frame *frame;
    struct webp_luma *luma; /* of each macroblock */
    webp_chroma *chroma;
    int16_t *levels;                     /* WEBP_LEVELS of each macroblock */
    uint64_t *luma_edges, *chroma_edges; /* WEBP_EDGE_WORDS of each macroblock */
    uint32_t *token_counts;              /* of each macroblock: see tokens.h */
    uint16_t *records;                   /* WEBP_LEVELS of each macroblock: see tokens.h */
    struct webp_group_counts *groups;
    struct webp_halving *halvings;
    uint8_t *probabilities; /* WEBP_PROBABILITIES */
    struct webp_partition modes, coefficients;
    uint32_t uses_skip, skip_probability; /* of macroblocks without levels: set by choose_tokens */
    uint32_t stride, width, height, channels;
    uint32_t columns, rows; /* of macroblocks */
    int quality;
    int quality_max; /* the image is encoded with this quality first */
    uint32_t bytes_max, *found_quality;
    struct quality_search search;
    bool is_found; /* `quality` is the one of the file */
    uint32_t header_bytes, trailer_bytes, capacity;
    uint32_t uv_alpha_sum; /* of all macroblocks: set by the kernel analyse */
    uint32_t declined;     /* set by any kernel: the image has no file */
    uint8_t quants[256];   /* quantiser index of a segment with this alpha + 127, at
                              `quality` */
};

/* Launch the kernels that write the tokens of the chosen levels and modes (encode_tokens.cu), and
 * those that code the tokens and write the files (encode_code.cu). Return a cudaError_t. */
int webp_launch_tokens(const struct webp_encode_batch *batch, void *description,
                       struct CUstream_st *stream) MUST_CHECK;
int webp_launch_code(const struct webp_encode_batch *batch, void *description,
                     struct CUstream_st *stream) MUST_CHECK;

#ifdef __cplusplus
}
#endif
