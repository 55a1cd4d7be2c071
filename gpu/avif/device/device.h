/*
 * device.h - what the host and the kernels of the AV1 encoder share: the description of a batch.
 *
 * The kernels run the stages of encode_impl.h for all images of a batch, one stage after the other:
 *
 *   encode_analyse.cu   import, P and A
 *   encode_blocks.cu    B
 *   encode_tokens.cu    C
 *   encode_adapt.cu     D: probabilities
 *   encode_code.cu      D: the range coder, and the file
 */
#pragma once

#include "gpu/avif/encode.h"
#include "gpu/avif/entropy/tokens.h"
#include "gpu/avif/transform/scans.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AVIF_HEADER_ROOM = 64 };
enum { STRIPS = 2 }; /* of a row of superblocks */

/* Tokens of a superblock are counted by cells, and by planes. */
enum { TOKEN_PARTS = CELLS * PLANES };

/* Tokens are coded in segments of about so many. What follows a segment depends on the range before
 * it. Only the bits of the range from 8 on count, so there are SEGMENT_RANGES different ones. */
enum { SEGMENT_TOKENS = 2048, SEGMENT_RANGES = 128 };
/* What a segment makes of a range: the range after it, and the bits of its code. */
struct avif_passage {
    uint32_t range, bits;
};
/* begin: the first token; range, bits: the range of the coder and the bits of the code before it;
 * carry: into the digit of 16 bits before its own; tail: the last two digits, which later segments
 * have in common with this one */
struct avif_segment {
    uint32_t begin, range, bits, carry, tail;
};

/* An image of a batch. The pointers of `encoder` and the last ones point into its work memory. */
struct avif_descriptor {
    struct avif_encoder encoder;
    const uint8_t *pixels, *header;
    uint8_t *file;
    uint32_t *file_bytes;
    uint32_t stride, channels;
    uint32_t header_bytes, trailer_bytes, capacity, image_length_at, media_at;
    /* The OBU of the sequence header, and the header of the frame. */
    uint8_t sequence[AVIF_HEADER_ROOM], frame_header[AVIF_HEADER_ROOM];
    uint32_t sequence_bytes, frame_header_bytes;
    struct avif_quantiser quantisers[ACTIVITIES]; /* of luma's levels */
    int64_t *costs;                               /* of the choices of stage A */
    /* Of each strip: how many columns of 32 samples are reconstructed. */
    uint32_t *progress;
    uint32_t *token_counts; /* of each superblock: TOKEN_PARTS counts; then where they begin */
    avif_token *tokens;     /* then with their probabilities, see ready.h */
    struct avif_segment *segments; /* and one after the last one */
    struct avif_passage *passages; /* of each segment: SEGMENT_RANGES */
    uint8_t *code; /* of the tile */
    uint32_t token_room, code_room;
    uint32_t token_count, code_bytes;
};

/* What the images of a batch share. */
struct avif_common {
    struct avif_scans scans;
    /* As scans.positions, where each of 32 lanes has coefficients that follow each other: the first
     * one of each lane, then the second one, and so on. Of 4 x 4: as scans.positions. */
    uint16_t lane_positions[SCAN_SIZES][1024];
    uint32_t rows_taken; /* by the kernel of stage B; reset by import */
};

struct avif_args {
    struct avif_common *common;
    struct avif_descriptor *images;
    uint32_t image_count, rows_max, blocks;
    int size, warps; /* of the kernels of a size */
};

/* Launch the kernels of a part. Return a cudaError_t. */
int avif_launch_analysis(const struct avif_encode_batch *batch, void *description,
                         struct CUstream_st *stream) MUST_CHECK;
int avif_launch_blocks(const struct avif_encode_batch *batch, void *description,
                       struct CUstream_st *stream) MUST_CHECK;
int avif_launch_tokens(const struct avif_encode_batch *batch, void *description,
                       struct CUstream_st *stream) MUST_CHECK;
int avif_launch_adaptation(const struct avif_encode_batch *batch, void *description,
                           struct CUstream_st *stream) MUST_CHECK;
int avif_launch_code(const struct avif_encode_batch *batch, void *description,
                     struct CUstream_st *stream) MUST_CHECK;

DEVICE struct avif_args avif_args_of(const struct avif_encode_batch *batch, void *description)
{
    struct avif_args args;
    args.common = (struct avif_common *)description;
    args.images = (struct avif_descriptor *)((uint8_t *)description + batch->images_at);
    args.image_count = batch->image_count;
    args.rows_max = batch->rows_max;
    args.blocks = 0;
    args.size = args.warps = 0;
    return args;
}

#ifdef __cplusplus
}
#endif
