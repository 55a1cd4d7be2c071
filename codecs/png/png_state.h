/*
 * png_state.h - what the PNG reader and writer share: the state of one call of libpng, and its
 * errors.
 *
 * libpng reports errors by longjmp. Only png_probe, png_decode, png_next_frame and png_encode call
 * setjmp. A variable that is used after a longjmp is in struct png_state, because a local variable
 * could have lost its value. Samples are stored as they are: neither gamma nor a colour profile is
 * applied.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>
#include <zlib.h>

#include "codecs/codec_impl.h"

#define PNG_SIGNATURE_BYTES 8
/* A chunk has its length, type and CRC besides its data. */
#define PNG_CHUNK_OVERHEAD 12
/* The name of a chunk with XMP: XMP part 3, 1.1.5. */
#define PNG_XMP_NAME "XML:com.adobe.xmp"
/* Room for the position of the decoder in a message. */
#define PNG_POSITION_BYTES 80

struct png_state {
    jmp_buf jump;
    png_structp png;
    png_infop info;
    struct error *error;
    bool encoding;
    bool out_of_memory; /* an allocation of libpng has failed: the cause of the next error */
    bool lenient;       /* accept damage that loses no pixel */
    bool has_all_rows;  /* the rest of the file is read only to find errors in it */
    const uint8_t *bytes;
    size_t length, at;        /* of the file; at: offset of the next byte that libpng reads */
    uint64_t deadline_ns;     /* of decoding */
    unsigned reads;           /* calls of libpng for bytes of the file */
    uint32_t rows, rows_done; /* rows is 0 until libpng has read the header */
    int pass, passes;         /* of an interlaced image; else one pass */
    struct codec_sink *sink;
    size_t used;              /* bytes in the sink's buffer */
    struct png_samples *samples; /* NULL: those of the image are written as they are */
    struct png_writer *writer; /* of the pixels; NULL: libpng writes them */
    uint8_t *swapped; /* a row of a deep image in the order of bytes of a PNG; NULL: not needed */
};

/* Writes where the reader or writer is: "after 7 of 12 rows". Returns `text`. */
const char *png_position(const struct png_state *state, char text[PNG_POSITION_BYTES]);
/* For an error after the last row: ends a lenient decode successfully. */
void png_accept_end(struct png_state *state);
/* For libpng: its errors, its warnings, and its allocations. libpng frees memory with free(),
 * because it gets no function for that. */
_Noreturn void png_on_error(png_structp png, png_const_charp message);
void png_on_warning(png_structp png, png_const_charp message);
png_voidp png_allocate(png_structp png, png_alloc_size_t bytes);
/* Fails if an allocation has failed. libpng itself then only drops chunks without pixels, for
 * example the colour profile, so that the output would have wrong colours. */
void png_check_memory(struct png_state *state);
/* Fails because libpng has created no object: memory is short, or the version of libpng differs
 * from that of its header file. */
_Noreturn void png_refuse_library(struct png_state *state);

/* Reads the file up to the first IDAT chunk. Call only after setjmp(state->jump). want_icc: libpng
 * keeps the colour profile. */
void png_open_reader(struct png_state *state, const uint8_t *bytes, size_t length,
                     const struct codec_limits *limits, bool want_icc);
/* How often an animation is shown, after png_open_reader; 0: for ever. */
uint32_t png_count_plays(const struct png_state *state);

codec_probe_fn png_probe;
codec_decode_fn png_decode;
/* The same by libpng alone, which is the reference of tests. */
codec_decode_fn png_decode_by_libpng;
codec_next_frame_fn png_next_frame;
codec_encode_fn png_encode;
size_t png_encoded_bytes(uint32_t width, uint32_t height, uint32_t channels,
                         const struct encoder_settings *settings);
size_t png_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                         const struct encoder_settings *settings);
