/*
 * inflate.h - inflates a zlib stream (RFC 1950, RFC 1951) in pieces of any size.
 *
 * libdeflate is as fast, but inflates a stream only in one call: it would need memory for all
 * filtered rows of an image, and could not stop at a deadline. A stream that zlib refuses is
 * refused here, too. So are a few that zlib accepts, for example those with very many small blocks;
 * the caller gives those to zlib.
 *
 * The caller owns both buffers. It gives input until the stream ends, and gets output behind the
 * last INFLATE_WINDOW_BYTES of earlier output, which matches refer to.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INFLATE_WINDOW_BYTES 32768
/* After a call, the output may end this much after its limit, including bytes without meaning. */
#define INFLATE_SLACK 320
/* A call needs this much input, or the last input, to go on: the header of a block. The same number
 * of zeros must follow the last input. */
#define INFLATE_INPUT_MIN 640

/* Codes of at most INFLATE_LITERAL_BITS and INFLATE_DISTANCE_BITS are in the first part of a table,
 * longer ones in smaller tables after it. The sizes are the largest of zlib's program `enough`, for
 * 288 and 32 symbols. */
#define INFLATE_LITERAL_BITS     12
#define INFLATE_DISTANCE_BITS    8
#define INFLATE_LITERAL_ENTRIES  4382
#define INFLATE_DISTANCE_ENTRIES 402

enum inflate_stage {
    INFLATE_AT_HEADER,
    INFLATE_AT_BLOCK,
    INFLATE_IN_STORED,
    INFLATE_IN_CODES,
    INFLATE_AT_CHECKSUM,
    INFLATE_AT_END
};

struct inflate {
    const uint8_t *in, *in_end; /* the input that has not been read */
    bool in_is_last;            /* no input follows in_end */
    uint64_t bits;              /* read from `in`, but not used */
    unsigned bit_count;         /* at most 7 between calls */
    enum inflate_stage stage;
    bool block_is_last;
    bool has_fixed_codes;  /* the tables are those of blocks with fixed codes */
    size_t stored;         /* bytes that are left of a stored block */
    uint64_t output_bytes; /* of the whole stream, as the caller expects it */
    uint64_t tables_left;  /* how often the tables may still be filled */
    uint32_t checksum;     /* Adler-32, as the stream states it, after INFLATE_ENDED */
    bool has_bmi2;
    uint32_t literals[INFLATE_LITERAL_ENTRIES], distances[INFLATE_DISTANCE_ENTRIES];
};

enum inflate_result {
    INFLATE_FULL,   /* *out has reached the limit; more input may be needed, too */
    INFLATE_HUNGRY, /* fewer than INFLATE_INPUT_MIN bytes of input are left; *out is below it */
    INFLATE_ENDED,  /* the stream is complete; `in` is after its checksum */
    INFLATE_BAD     /* the stream is refused */
};

/* output_bytes: streams that declare a smaller window than zlib's largest are refused, unless the
 * whole output fits that window: zlib refuses some of their matches. */
void inflate_open(struct inflate *inflate, uint64_t output_bytes);

/* Inflates until *out reaches the limit. `window`: the first byte of output that is still there. */
enum inflate_result inflate_run(struct inflate *inflate, const uint8_t *window, uint8_t **out,
                                const uint8_t *limit);
