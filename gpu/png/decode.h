/*
 * decode.h - decodes PNG files in device memory, with exactly the pixels of libpng.
 *
 * The files have 8-bit gray, RGB or RGBA without interlace (codecs/png/frame.h). The device
 * declines an image that is damaged, or unusual: the image's verdict is then not 0, and its pixels
 * are undefined. The caller must decode it on the host, which finds the message. The device checks
 * all that codecs/png/png_stream.c checks: the zlib stream, its Adler-32, the CRCs, the filters,
 * and the chunks up to IEND.
 *
 * A batch of images shares the kernel launches. The kernels read descriptors of the images, which
 * the host writes and uploads:
 *
 *     for each image: images[i].work = device memory of png_decode_work_bytes(...) bytes;
 *     bytes = png_decode_describe(images, count, NULL, 0, &batch);
 *     png_decode_describe(images, count, pinned, bytes, &batch);
 *     cudaMemcpyAsync(descriptors, pinned, bytes, cudaMemcpyHostToDevice, stream);
 *     png_decode_inflate(&batch, descriptors, stream);
 *     png_decode_rows(&batch, descriptors, stream);
 *
 * The functions may be called on any thread. They neither allocate memory nor wait for the device.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"
#include "codecs/png/frame.h"
#include "conf/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Longest file that the device decodes, and most filtered rows: a larger image would run for
 * seconds, and a core has a deadline meanwhile. */
#define PNG_DECODE_FILE_BYTES_MAX (256u << 20)
#define PNG_DECODE_ROW_BYTES_MAX  (256u << 20)
/* The most images of a batch. */
#define PNG_DECODE_IMAGES_MAX 65535

/* Whether an image was decoded, or why the device has declined it. */
enum png_decode_verdict {
    PNG_DECODE_DONE,
    PNG_DECODE_CHUNKS,   /* the chunks are damaged, unusual, or too many */
    PNG_DECODE_STREAM,   /* the zlib stream is damaged, or too short or too long */
    PNG_DECODE_CHECKSUM, /* an Adler-32 or a CRC is wrong */
    PNG_DECODE_FILTER    /* an unknown filter */
};

/* An image of a batch. */
struct png_decode_image {
    const struct png_frame *frame; /* host memory */
    const uint8_t *file; /* Device address of the whole file, a multiple of 16. The memory must be
                            readable up to the next multiple of 16 bytes after the file. */
    uint32_t file_bytes;
    struct image image; /* The result. pixels: device address, a multiple of BUFFER_ALIGN; stride:
                           image_stride(); the sides and channels are those of the frame. */
    uint32_t *verdict;  /* receives an enum png_decode_verdict; device or mapped memory */
    uint8_t *work;      /* device address, a multiple of BUFFER_ALIGN */
};

/* What the launches must know of a batch. png_decode_describe fills it, and callers do not
 * use its members. */
struct png_decode_batch {
    uint32_t image_count;
    uint32_t slice_blocks, adler_blocks; /* blocks of threads per image */
    uint32_t rows_max;                   /* of the highest image */
};

/* Returns the bytes of device memory that an image needs besides its file and its pixels; 0: the
 * device cannot decode it. */
size_t png_decode_work_bytes(const struct png_frame *frame, size_t file_bytes);

/* Writes the descriptors of one or more images to `descriptors`, host memory of `bytes` bytes whose
 * address is a multiple of 16, and fills *batch. Returns the number of bytes that the descriptors
 * take. If this is more than `bytes`, nothing is written. png_decode_work_bytes must not be 0 for
 * any image. */
size_t png_decode_describe(const struct png_decode_image *images, size_t count, void *descriptors,
                           size_t bytes, struct png_decode_batch *batch);

/* Enqueue the decoding of a batch in two parts, one after the other. The first inflates, which
 * takes long; the second writes the pixels and the verdicts. descriptors: the uploaded descriptors,
 * at a device address that is a multiple of BUFFER_ALIGN. All memory must stay valid until the
 * stream has run the kernels. The same descriptors can be launched again. Return a cudaError_t. */
int png_decode_inflate(const struct png_decode_batch *batch, const void *descriptors,
                       struct CUstream_st *stream) MUST_CHECK;
int png_decode_rows(const struct png_decode_batch *batch, const void *descriptors,
                    struct CUstream_st *stream) MUST_CHECK;

#ifdef __cplusplus
}
#endif
