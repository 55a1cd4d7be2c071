/*
 * encode.h - encodes images in device memory as JPEG files, with exactly the bytes of
 * libjpeg-turbo.
 *
 * The files are baseline files of gray images, and of RGB images with 4:4:4, 4:2:2 or 4:2:0
 * sampling, as libjpeg writes them with JDCT_ISLOW and the standard Huffman tables. The caller
 * makes the headers and the quantisation tables with libjpeg (codecs/jpeg/header.h).
 *
 * A batch of images shares the kernel launches. The kernels read a description of the images, which
 * the host writes and uploads:
 *
 *     for each image: images[i].work = device memory of jpeg_encode_work_bytes(...) bytes;
 *     bytes = jpeg_encode_describe(images, count, NULL, 0, &batch);
 *     jpeg_encode_describe(images, count, pinned, bytes, &batch);
 *     cudaMemcpyAsync(description, pinned, bytes, cudaMemcpyHostToDevice, stream);
 *     jpeg_encode_launch(&batch, description, stream);
 *
 * With `ssim`, the device first finds the quality at which the file has this similarity to the
 * image, without the host (encode_quality.cu).
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

/* The kinds of images, each with a kernel: gray, 4:4:4, 4:2:2, 4:2:0. */
#define JPEG_ENCODE_KINDS 4
/* Longest file. Its bytes, and as many stuffed zeros, are counted in 32 bits. */
#define JPEG_ENCODE_FILE_MAX 2000000000u
/* Alignment of pixels, files and descriptions. */
#define JPEG_ENCODE_ALIGN 16

struct jpeg_encode_image {
    struct image source;   /* pixels in device memory: height * stride bytes, 1 or 3 channels */
    uint8_t h, v;          /* sampling factors of Y, if those of Cb and Cr are 1: 1 and 1, 2 and 1,
                              or 2 and 2; gray: 1 and 1 */
    const uint16_t *quant; /* 2 tables of 64 values of 1 to 255, in natural order; gray: 1 table */
    const uint8_t *header; /* The bytes of the file up to the end of its SOS segment, aligned to 4.
                              The kernels read them, so the memory is pinned or on the device. */
    size_t header_bytes;
    uint8_t *work; /* device memory of jpeg_encode_work_bytes(), aligned to BUFFER_ALIGN */
    uint8_t *file; /* receives the file: device or pinned memory of `capacity` bytes */
    size_t capacity;
    bool is_checked; /* jpeg_encode_describe has accepted this image before: it need not check it */
    uint32_t *file_bytes; /* Device or pinned memory: receives the length of the file. 0: the file
                             would be longer than `capacity` or than JPEG_ENCODE_FILE_MAX, and
                             nothing was written to it. */
    /* A search for a quality (codecs/ssim_search.h). The file also counts as too long if libjpeg's
     * versions decode the file of a trial differently. */
    int ssim;                     /* the similarity, in units of 1 / SSIM_ONE; 0: no search, and
                                     the rest is not used */
    int quality_min, quality_max; /* 1 to 100 */
    uint8_t *header_quants[2];    /* The values of the tables of quantisers in the header, which is
                                     then on the device: the kernels write those of the quality
                                     that was found. Gray: one. */
    uint32_t *found_quality, *found_ssim; /* device or pinned memory */
};

/* What jpeg_encode_launch must know of a batch. jpeg_encode_describe fills it, and callers do not
 * use its members. */
struct jpeg_encode_batch {
    uint32_t image_count;
    uint32_t chunks[JPEG_ENCODE_KINDS + 1]; /* kind k has the chunks (encode_impl.h) chunks[k] to
                                               chunks[k + 1] - 1 */
    uint32_t tiles_max;                     /* the most tiles of an image */
    size_t chunks_at;                       /* offset of the chunks in the description */
    uint32_t search_chunks, search_trials;  /* the chunks of tiles of all searches; the most trials
                                               of one */
    size_t searches_at, search_chunks_at;   /* offsets in the description */
};

/* Returns a capacity that is enough for every image of this size, at any quality. Photographs need
 * less than a tenth of it. */
size_t jpeg_encode_capacity_max(uint32_t width, uint32_t height, uint32_t channels, uint32_t h,
                                uint32_t v, size_t header_bytes);

/* Returns the bytes of device memory that an image needs while it is encoded: little more than its
 * capacity. */
size_t jpeg_encode_work_bytes(uint32_t width, uint32_t height, uint32_t channels, uint32_t h,
                              uint32_t v, size_t capacity);

/* Writes the description of one or more images to `description`, host memory of `bytes` bytes, and
 * fills *batch. Returns the size of the description: about 630 bytes per image, or 790 with a
 * search, and 8 bytes for each 65,536 pixels. If this is more than `bytes`, nothing is written.
 * Returns SIZE_MAX if a member of an image does not fulfil its conditions above, an image has a
 * side above SIDE_CEILING, or the batch has too many pixels for one launch (more than 4
 * terapixels). */
size_t jpeg_encode_describe(const struct jpeg_encode_image *images, uint32_t count,
                            void *description, size_t bytes, struct jpeg_encode_batch *batch);

/* Enqueues the encoding of a batch. description: the uploaded description, at a device address that
 * is a multiple of JPEG_ENCODE_ALIGN. The kernels also write to it, but leave it so that it can be
 * launched again. All memory must stay valid until the stream has run the kernels. Returns a
 * cudaError_t. */
int jpeg_encode_launch(const struct jpeg_encode_batch *batch, void *description,
                       struct CUstream_st *stream) MUST_CHECK;

#ifdef __cplusplus
}
#endif
