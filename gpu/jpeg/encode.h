/*
 * encode.h - encodes images in device memory as JPEG files with libjpeg-turbo's bytes.
 *
 * Baseline files of gray images, and of RGB images with 4:4:4, 4:2:2 or 4:2:0 sampling, as libjpeg
 * writes them with JDCT_ISLOW and the standard Huffman tables. The caller makes the bytes before
 * the entropy-coded data, and the quantisation tables, with libjpeg (codecs/jpeg/header.h).
 *
 *     for each image: work_bytes = jpeg_encode_work_bytes(width, height, channels, h, v, capacity);
 *     bytes = jpeg_encode_describe(images, count, NULL, 0, &batch);
 *     jpeg_encode_describe(images, count, pinned, bytes, &batch);
 *     cudaMemcpyAsync(description, pinned, bytes, cudaMemcpyHostToDevice, stream);
 *     jpeg_encode_launch(&batch, description, stream);
 *
 * Many images share one launch. Nothing here allocates memory or waits for the device.
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

/* Gray, 4:4:4, 4:2:2, 4:2:0. */
#define JPEG_ENCODE_KINDS 4
/* Longer files are not made: their bytes, and as many stuffed ones, must fit into 32 bits. */
#define JPEG_ENCODE_FILE_MAX 2000000000u
/* Alignment of pixels, files and descriptions. */
#define JPEG_ENCODE_ALIGN 16

struct jpeg_encode_image {
    struct image source;   /* pixels in device memory: height * stride bytes, 1 or 3 channels */
    uint8_t h, v;          /* sampling factors of Y, if those of Cb and Cr are 1: 1 1, 2 1 or 2 2;
                              gray: 1 1 */
    const uint16_t *quant; /* 2 tables of 64 values of 1 to 255, in natural order; gray: 1 table */
    const uint8_t *header; /* pinned host memory, or device memory, a multiple of 4 bytes: the bytes
                              of the file up to the end of its SOS segment. The kernels read it. */
    size_t header_bytes;
    uint8_t *work;         /* device memory, BUFFER_ALIGN aligned: jpeg_encode_work_bytes() */
    uint8_t *file;         /* device memory, or pinned host memory: capacity bytes */
    size_t capacity;
    uint32_t *file_bytes;  /* device or pinned: receives the length of the file; 0: the file is
                              longer than the capacity or than JPEG_ENCODE_FILE_MAX, and nothing
                              was written to `file` */
};

/* What the host keeps of a described batch. Its members belong to this module. */
struct jpeg_encode_batch {
    uint32_t image_count;
    uint32_t chunks[JPEG_ENCODE_KINDS + 1]; /* kind k has chunks[k] to chunks[k + 1] - 1 */
    uint32_t tiles_max;                     /* of an image */
    size_t chunks_at;                       /* offset in the description */
};

/* Returns a capacity that is enough for every image of this size, at any quality. Photographs need
 * less than a tenth of it. */
size_t jpeg_encode_capacity_max(uint32_t width, uint32_t height, uint32_t channels, uint32_t h,
                                uint32_t v, size_t header_bytes);

/* Returns the bytes of device memory that an image needs while it is encoded: little more than its
 * capacity. */
size_t jpeg_encode_work_bytes(uint32_t width, uint32_t height, uint32_t channels, uint32_t h,
                              uint32_t v, size_t capacity);

/* Writes the description of 1 or more images to host memory, in an order of its own, and fills
 * *batch. Returns the size of the description: about 630 bytes per image and 8 bytes for each
 * 65,536 pixels. If it is more than `bytes`, nothing was written. Returns SIZE_MAX if an image is
 * not of a kind above, has a side above SIDE_CEILING, is not aligned or has other quantisers, or if
 * the batch has too many pixels for one launch (more than 4 terapixels). */
size_t jpeg_encode_describe(const struct jpeg_encode_image *images, uint32_t count, void *to,
                            size_t bytes, struct jpeg_encode_batch *batch);

/* Encodes the batch on the stream, which must have uploaded the description. description: the
 * device's copy. The kernels write to it, but it can be launched again after this launch. All
 * memory must stay until the stream has passed the launch. Returns a cudaError_t. */
int jpeg_encode_launch(const struct jpeg_encode_batch *batch, void *description,
                       struct CUstream_st *stream) MUST_CHECK;

#ifdef __cplusplus
}
#endif
