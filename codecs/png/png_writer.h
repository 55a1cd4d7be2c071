/*
 * png_writer.h - writes the rows of an image as the IDAT chunks of a PNG, by the rules of
 * png_tiles.h.
 *
 * One thread uses a writer. Its memory is that of png_writer_bytes.
 */
#pragma once

#include "codecs/png/png_kernels.h"

struct png_writer;

/* Receives the bytes of chunks. It may not return (longjmp); then only png_writer_close may be
 * called. */
typedef void png_write_fn(void *context, const uint8_t *bytes, size_t count);

/* kernels: NULL for the fastest of this processor. Returns NULL if there is no memory. */
struct png_writer *png_writer_open(uint32_t width, uint32_t height, uint32_t channels,
                                   const struct png_kernels *kernels, png_write_fn *write,
                                   void *context);
/* Takes the next of `height` rows. The last row writes the last chunk. */
void png_writer_row(struct png_writer *writer, const uint8_t *pixels);
void png_writer_close(struct png_writer *writer); /* takes NULL */
/* The memory of a writer: some hundred KiB and three rows. */
size_t png_writer_bytes(uint32_t width, uint32_t channels);
/* Upper bound of the size of all chunks. */
size_t png_writer_most(uint32_t width, uint32_t height, uint32_t channels);
