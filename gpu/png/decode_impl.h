/*
 * decode_impl.h - the descriptors of images that the kernels of the PNG decoder read, and the data
 * that these kernels exchange.
 *
 * The decoder has three stages, each in a file decode_STAGE.cu:
 *
 *     chunks    lists the chunks from the first IDAT to IEND, joins the data of the IDAT chunks,
 *               and computes the CRCs
 *     inflate   inflates the joined data to filtered rows
 *     rows      computes the Adler-32 of the filtered rows, undoes the filters, and writes the
 *               verdict
 */
#pragma once

#include "gpu/png/decode.h"

/* A file may have this many chunks from the first IDAT on, and one more per so many bytes. Each
 * chunk costs a fraction of a microsecond, and a hostile file could have one per 12 bytes. */
#define PNG_CHUNKS_LEAST    1024
#define PNG_BYTES_PER_CHUNK 1024
/* A stream may have this many blocks, and one more per so many bytes of output. zlib's have four
 * times as many bytes. Each block costs some 20 us, and a hostile stream could have one per 10
 * bits. */
#define PNG_BLOCKS_LEAST    64
#define PNG_BYTES_PER_BLOCK 4096
/* Bytes of the file that a block of threads of the stage `chunks` copies at a time, and of filtered
 * rows that one of the stage `rows` adds up at a time. */
#define PNG_SLICE_BYTES 32768
#define PNG_ADLER_BYTES 32768
/* Memory after the filtered rows, because kernels load words beyond their end. */
#define PNG_STREAM_MARGIN 64
/* png_chunk.zlib_at of a chunk that is not IDAT. */
#define PNG_NOT_IDAT 0xFFFFFFFFu

/* The part of an image's state that the kernels write. */
struct png_run {
    uint32_t verdict;     /* enum png_decode_verdict; unless 0, the later kernels skip the image */
    uint32_t chunk_count; /* chunks that are listed */
    uint32_t end;         /* offset in the file: after the last of them */
    uint32_t zlib_bytes;  /* of all IDAT chunks */
    uint32_t adler;       /* Adler-32, as the zlib stream states it */
    uint32_t sums[2];     /* the two sums of Adler-32, not yet reduced */
    uint32_t padding;
};

/* A chunk of the file. */
struct png_chunk {
    uint32_t at;      /* offset in the file: of its length */
    uint32_t bytes;   /* of its data */
    uint32_t zlib_at; /* offset of the data in descriptor.zlib; PNG_NOT_IDAT */
    uint32_t crc;     /* the sum of the remainders of its pieces (crc.h) */
};

struct png_descriptor {
    const uint8_t *file;
    uint32_t file_bytes, idat_at;
    uint32_t chunks_max, blocks_max;
    uint32_t idat_bytes_max; /* a longer chunk is refused by libpng */
    uint32_t row_bytes;      /* of pixels: a filtered row has one byte more */
    uint32_t stream_bytes;   /* of all filtered rows */
    uint32_t padding;
    struct png_run *run;
    struct png_chunk *chunks; /* chunks_max */
    uint8_t *zlib;            /* the joined data of the IDAT chunks, aligned to 16 */
    uint8_t *stream;          /* the filtered rows, aligned to 16 */
    struct image image;
    uint32_t *verdict; /* png_decode_image.verdict */
};

/* The arguments of all kernels. */
struct png_args {
    const struct png_descriptor *images;
    uint32_t slice_step; /* bytes of the file from one slice of a block of threads to its next */
    uint32_t adler_step; /* likewise, of filtered rows */
};

static inline struct png_args png_args_of(const struct png_decode_batch *batch,
                                          const void *descriptors)
{
    struct png_args args = {(const struct png_descriptor *)descriptors,
                            batch->slice_blocks * PNG_SLICE_BYTES,
                            batch->adler_blocks * PNG_ADLER_BYTES};
    return args;
}

#ifdef __cplusplus
extern "C" {
#endif

/* Launches the kernels of the stage `chunks`. Returns a cudaError_t. */
int png_launch_chunks(const struct png_decode_batch *batch, const struct png_args *args,
                      struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
