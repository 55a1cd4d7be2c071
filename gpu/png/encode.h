/*
 * encode.h - encodes images in device memory as PNG files, with exactly the bytes of the own
 * encoder of the CPU (codecs/png/png_writer.h), which png_tiles.h defines.
 *
 * A batch of images shares the kernel launches. The kernels read a description of the images, which
 * the host writes and uploads:
 *
 *     for each image: images[i].work = device memory of png_encode_work_bytes(...) bytes;
 *     bytes = png_encode_describe(images, count, NULL, 0, &batch);
 *     png_encode_describe(images, count, pinned, bytes, &batch);
 *     cudaMemcpyAsync(description, pinned, bytes, cudaMemcpyHostToDevice, stream);
 *     png_encode_launch(&batch, description, stream);
 *
 * The functions may be called on any thread. They neither allocate memory nor wait for the device.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"
#include "conf/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Alignment of pixels, files and descriptions. */
#define PNG_ENCODE_ALIGN 16

struct png_encode_image {
    struct image source;   /* pixels in device memory: height * stride bytes; 1, 3 or 4 channels */
    const uint8_t *header; /* The bytes of the file before its first IDAT chunk, aligned to 4. The
                              kernels read them, so the memory is pinned or on the device. */
    size_t header_bytes;
    uint8_t *work; /* device memory of png_encode_work_bytes(), aligned to BUFFER_ALIGN */
    uint8_t *file; /* Receives the file, with its IEND chunk: device or pinned memory of `capacity`
                      bytes. */
    size_t capacity;      /* at least png_encode_capacity() */
    uint32_t *file_bytes; /* device or pinned memory: receives the length of the file */
};

/* What png_encode_launch must know of a batch. png_encode_describe fills it, and callers do not
 * use its members. */
struct png_encode_batch {
    uint32_t image_count;
    uint32_t tiles_max;                             /* of an image */
    uint32_t row_chunks, tile_chunks, piece_chunks; /* counts of struct png_encode_chunk */
    size_t images_at, chunks_at;                    /* offsets in the description */
};

/* Returns a capacity that is enough for every image of this size: little more than its pixels take;
 * 0: the file may be too long for the device. */
size_t png_encode_capacity(uint32_t width, uint32_t height, uint32_t channels, size_t header_bytes);

/* Returns the bytes of device memory that an image needs while it is encoded. */
size_t png_encode_work_bytes(uint32_t width, uint32_t height, uint32_t channels);

/* Writes the description of one or more images to `description`, host memory of `bytes` bytes, and
 * fills *batch. Returns the size of the description. If this is more than `bytes`, nothing is
 * written. Returns SIZE_MAX if a member of an image does not fulfil its conditions above, an image
 * has a side above SIDE_CEILING, or the batch has too many pixels for one launch. */
size_t png_encode_describe(const struct png_encode_image *images, uint32_t count, void *description,
                           size_t bytes, struct png_encode_batch *batch);

/* Enqueues the encoding of a batch. description: the uploaded description, at a device address that
 * is a multiple of PNG_ENCODE_ALIGN. All memory must stay valid until the stream has run the
 * kernels. Returns a cudaError_t. */
int png_encode_launch(const struct png_encode_batch *batch, void *description,
                      struct CUstream_st *stream) MUST_CHECK;

#ifdef __cplusplus
}
#endif
