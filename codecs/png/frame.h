/*
 * frame.h - the contents of PNG headers, for the decoder and the encoder on GPUs (gpu/png/).
 *
 * The structs have no pointers, so they can be copied to a GPU.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/status.h"

/* The header of an image with 8-bit gray, RGB or RGBA, without interlace and transparent colour. */
struct png_frame {
    uint32_t width, height, channels; /* channels: 1, 3 or 4 */
    uint32_t idat_at;                 /* offset of the first IDAT chunk: of its length */
};

/* What a GPU that encodes an image needs: the bytes before the first IDAT chunk.
 * codecs/png/header.c fills it in. */
struct png_prelude {
    uint32_t header_bytes;
    uint8_t header[];
};

#ifdef __cplusplus
extern "C" {
#endif

/* Reads the frame from the first `length` bytes of a file, which need not be the whole file.
 * Returns false if devices do not decode the file: it has another kind of pixels, a palette, a
 * damaged or unusual chunk before the pixels, or its first IDAT chunk is not in these bytes. *frame
 * is then undefined, and png_decode decodes the file or reports the damage. */
bool png_read_frame(const uint8_t *bytes, size_t length, struct png_frame *frame) MUST_CHECK;

#ifdef __cplusplus
}
#endif
