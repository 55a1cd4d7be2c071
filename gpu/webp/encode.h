/*
 * encode.h - encodes images in device memory as lossy WebP files (RFC 6386, RFC 9649), with exactly
 * the bytes of libwebp's encoder at method 2.
 *
 * The bytes are those of libwebp 1.0.3 to 1.6.0 with the values of WebPConfigInit besides method
 * and quality. A batch of images shares the kernel launches. The kernels read a description of the
 * images, which the host writes and uploads:
 *
 *     for each image: images[i].work = device memory of webp_encode_work_bytes(...) bytes;
 *     bytes = webp_encode_describe(images, count, NULL, 0, &batch);
 *     webp_encode_describe(images, count, pinned, bytes, &batch);
 *     cudaMemcpyAsync(description, pinned, bytes, cudaMemcpyHostToDevice, stream);
 *     webp_encode_launch(&batch, description, stream);
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
#define WEBP_ENCODE_ALIGN 16
/* The longest side of a WebP file. */
#define WEBP_SIDE_MAX 16383
/* A file begins with at least a RIFF header. */
#define WEBP_RIFF_BYTES 12

struct webp_encode_image {
    struct image source;   /* pixels in device memory: height * stride bytes; 1, 3 or 4 channels */
    int quality;           /* 0 to 100 */
    uint32_t bytes_max;    /* only for webp_encode_search: of the file; 0: any */
    uint32_t *found_quality; /* with bytes_max: device or pinned memory, receives the quality of the
                                file */
    const uint8_t *header; /* The bytes of the file before its VP8 chunk: the RIFF header, whose
                              size the kernels set, and the chunks with the canvas and the ICC
                              profile, if there are any. Then the bytes after the VP8 chunk. Aligned
                              to 4, in pinned or device memory. */
    size_t header_bytes;   /* before the VP8 chunk: at least WEBP_RIFF_BYTES */
    size_t trailer_bytes;  /* after it, at header + header_bytes */
    uint8_t *work;         /* device memory of webp_encode_work_bytes(), aligned to BUFFER_ALIGN */
    uint8_t *file;         /* Receives the file: device or pinned memory of `capacity` bytes. */
    size_t capacity;       /* from webp_encode_capacity() to INT32_MAX */
    uint32_t *file_bytes;  /* Device or pinned memory: receives the length of the file, or 0 if the
                              device declines the image: it has an alpha that is not opaque, more
                              tokens than the work memory holds, a file longer than `capacity`, or a
                              first partition that is too long for VP8. */
};

/* What webp_encode_launch must know of a batch. webp_encode_describe fills it, and callers do not
 * use its members. */
struct webp_encode_batch {
    uint32_t image_count;
    uint32_t macroblocks_max, columns_max, rows_max; /* of an image */
    uint32_t group_count, task_room, piece_room, chunk_tokens;
    size_t images_at, groups_at, tasks_at, pieces_at; /* offsets in the description */
    size_t quants_at; /* offset in the description; 0: no image has bytes_max */
};

/* Returns the capacity for an image: enough for photographs at this quality, but not for noise. 0:
 * a side is longer than WEBP_SIDE_MAX, or the bytes around are too many. */
size_t webp_encode_capacity(uint32_t width, uint32_t height, int quality, size_t header_bytes,
                            size_t trailer_bytes);

/* Returns the bytes of device memory that an image needs while it is encoded at this quality, or a
 * lower one: 22 per pixel at 75, 34 at 85, 46 at 95 and 82 at 100, about. */
size_t webp_encode_work_bytes(uint32_t width, uint32_t height, int quality);

/* Writes the description of one or more images to `description`, host memory of `bytes` bytes, and
 * fills *batch. Returns the size of the description. If this is more than `bytes`, nothing is
 * written. Returns SIZE_MAX if a member of an image does not fulfil its conditions above, or the
 * batch has too many pixels for one launch. */
size_t webp_encode_describe(const struct webp_encode_image *images, uint32_t count,
                            void *description, size_t bytes, struct webp_encode_batch *batch);

/* Enqueues the encoding of a batch. description: the uploaded description, at a device address that
 * is a multiple of WEBP_ENCODE_ALIGN. All memory must stay valid until the stream has run the
 * kernels. Returns a cudaError_t. */
int webp_encode_launch(const struct webp_encode_batch *batch, void *description,
                       struct CUstream_st *stream) MUST_CHECK;

/* As webp_encode_launch, but encodes the batch several times: finds for each image with bytes_max
 * the quality of quality_search.h, which is at most `quality`, and writes the file of this quality.
 * If there is none, the file is larger than bytes_max. Nothing is found for an image that is
 * declined at one of the qualities. */
int webp_encode_search(const struct webp_encode_batch *batch, void *description,
                       struct CUstream_st *stream) MUST_CHECK;

#ifdef __cplusplus
}
#endif
