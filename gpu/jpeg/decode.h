/*
 * decode.h - decodes JPEG files in device memory to libjpeg-turbo's samples.
 *
 * The samples are those of libjpeg-turbo with JDCT_ISLOW and fancy upsampling, at 8/8, 4/8, 2/8 and
 * 1/8 of the size. The input is a sequential file, or the coefficients of a progressive one that
 * progressive.h has decoded. An image that is damaged, or in which libjpeg would find something to
 * warn about, is declined: its verdict is not 0, and its pixels are undefined. The host then
 * decodes it.
 *
 *     for each image: work_bytes = jpeg_decode_work_bytes(frame, file_bytes, as, eighths);
 *     bytes = jpeg_decode_describe(images, count, NULL, 0, &batch);
 *     jpeg_decode_describe(images, count, pinned, bytes, &batch);
 *     cudaMemcpyAsync(descriptors, pinned, bytes, cudaMemcpyHostToDevice, stream);
 *     jpeg_decode_launch(&batch, descriptors, stream);
 *
 * Many images share the launches. The functions may be called on any thread. Nothing here allocates
 * memory or waits for the device.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"
#include "codecs/jpeg/frame.h"
#include "conf/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct jpeg_plane;

/* Images of a batch, at most. */
#define JPEG_DECODE_BATCH_MAX 4096
/* Bit positions in a file are 32-bit numbers. */
#define JPEG_DECODE_FILE_BYTES_MAX (256u << 20)

/* Why the device has declined an image. JPEG_DECODE_DONE: it has not. */
enum jpeg_decode_verdict {
    JPEG_DECODE_DONE,
    JPEG_DECODE_BAD_CODE,    /* bits that are no code, or a coefficient with an index above 63 */
    JPEG_DECODE_EARLY_END,   /* fewer blocks than the image has, or no end marker */
    JPEG_DECODE_BYTES_LEFT,  /* bytes after the last block of a segment */
    JPEG_DECODE_RESTART,     /* a restart marker is missing, wrong, or not expected */
    JPEG_DECODE_MARKER,      /* another marker than a restart marker or EOI */
    JPEG_DECODE_RANGE,       /* beyond the range in which all of libjpeg's functions agree */
    JPEG_DECODE_NOT_IN_STEP, /* the parallel decoders did not synchronise within the bound */
    JPEG_DECODE_NO_INPUT,    /* the coefficients were declined */
};

/* An image of a batch. */
struct jpeg_decode_image {
    const struct jpeg_frame *frame; /* host memory */
    const uint8_t *file;     /* device address of the whole file, multiple of 16 bytes. The memory
                                is readable up to the next multiple of 16 bytes after the file. */
    uint32_t file_bytes;
    enum decode_as as;
    uint32_t eighths;        /* 8 or 0, 4, 2 or 1 */
    struct image image;      /* pixels: device address, multiple of BUFFER_ALIGN; stride as
                                image_stride() gives it, sides as image_scaled(). Channels: 1 for a
                                gray file or DECODE_LUMA, else 3: RGB, or with DECODE_YCC Y, Cb and
                                Cr */
    uint32_t *verdict;       /* receives an enum jpeg_decode_verdict; device or mapped memory */
    uint8_t *work;           /* device address, multiple of BUFFER_ALIGN */
    /* Only for the coefficients of a progressive file. */
    const struct jpeg_plane *coefficients; /* host memory: a plane for each component that is
                                              needed; NULL: a sequential file */
    const uint32_t *coefficients_verdict;  /* device address: 0 if the coefficients are valid */
};

/* What the launches need to know of a batch; jpeg_decode_describe fills it. */
struct jpeg_decode_batch {
    uint32_t image_count, table_sets;
    uint32_t chunks, spans, tiles, groups, bands; /* blocks of threads of the kernels */
    uint32_t span_threads;
    bool has_segments;
};

/* Returns the device memory that an image needs besides its file and its pixels; 0: the device
 * declines it. It takes gray and YCbCr files with 4:4:4, 4:2:2, 4:4:0 or 4:2:0 sampling and, of
 * sequential ones, those with at most two pairs of Huffman tables, one of Y and one of Cb and Cr.
 * It declines other scales than 8 (or 0), 4, 2 and 1 eighths. */
size_t jpeg_decode_work_bytes(const struct jpeg_frame *frame, size_t file_bytes, enum decode_as as,
                              uint32_t eighths);

/* Writes the descriptors of a batch to `to`, host memory of `bytes` bytes, multiple of 16, and
 * fills *batch. Returns the number of bytes that the descriptors take. If they take more than
 * `bytes`, it writes none. Every image must have a work size other than 0.
 * count: 1 to JPEG_DECODE_BATCH_MAX. */
size_t jpeg_decode_describe(const struct jpeg_decode_image *images, size_t count, void *to,
                            size_t bytes, struct jpeg_decode_batch *batch);

/* Enqueues the decoding of a batch. descriptors: device address, multiple of BUFFER_ALIGN, of the
 * uploaded descriptors. They, the files, the images and the work memory must stay until the stream
 * has passed the launch. The same descriptors can be launched again. Returns a cudaError_t. */
int jpeg_decode_launch(const struct jpeg_decode_batch *batch, const void *descriptors,
                       struct CUstream_st *stream) MUST_CHECK;

#ifdef __cplusplus
}
#endif
