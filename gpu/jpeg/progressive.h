/*
 * progressive.h - decodes the entropy-coded data of progressive JPEGs on a device.
 *
 * The result is the coefficients that jpeg_read_coefficients of libjpeg-turbo returns, in the
 * layout of coefficients.h. The decoder declines an image that libjpeg-turbo would decode with a
 * warning, and any other irregular image: the host must decode it.
 *
 * A batch of images shares three launches and one upload of descriptors:
 *
 *     for each image: work_bytes = jpeg_progressive_work_bytes(frame, file_bytes, luma_only);
 *     bytes = jpeg_progressive_describe(images, count, NULL, 0, &batch);
 *     jpeg_progressive_describe(images, count, pinned, bytes, &batch);
 *     cudaMemcpyAsync(descriptors, pinned, bytes, cudaMemcpyHostToDevice, stream);
 *     jpeg_progressive_decode(&batch, descriptors, stream);
 *
 * The functions may be called on any thread. Nothing here allocates memory or waits for the device.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/jpeg/frame.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct jpeg_plane;

/* Images of a batch, at most. */
#define JPEG_PROGRESSIVE_BATCH_MAX 1024

/* Why the device has declined an image. JPEG_SCANS_COMPLETE: it has not. */
enum jpeg_progressive_verdict {
    JPEG_SCANS_COMPLETE,
    JPEG_SCANS_STOPPED, /* an earlier scan has failed; its verdict replaces this one */
    JPEG_SCANS_MARKER,  /* a wrong or missing restart marker, or bytes that are no entropy data */
    JPEG_SCANS_LENGTH,  /* bits missing, or bytes left over */
    JPEG_SCANS_CODE,    /* a code or symbol that means nothing */
    JPEG_SCANS_INDEX,   /* a coefficient after the end of the band */
    JPEG_SCANS_RUN,     /* an end-of-band run that exceeds the segment */
    JPEG_SCANS_VALUE,   /* a DC value that takes more than 16 bits */
};

/* An image of a batch. */
struct jpeg_progressive_image {
    const struct jpeg_frame *frame;
    const uint8_t *file; /* device address of the whole file, multiple of 16 bytes. The memory is
                            readable up to the next multiple of 16 bytes after the file. */
    uint32_t file_bytes;
    bool luma_only;      /* only the first component is needed */
    uint8_t *work;       /* device address, multiple of 256 bytes */
    uint32_t *verdict;   /* device or mapped pinned memory; receives an
                            enum jpeg_progressive_verdict */
};

/* What the launches need to know of a batch; jpeg_progressive_describe fills it. */
struct jpeg_progressive_batch {
    uint32_t image_count, scan_count;
    uint32_t scans_at, tables_at; /* offsets in the descriptors, in bytes */
    uint32_t groups_max; /* of 32 blocks each, of the largest component */
};

/* Returns the device memory that the decoder needs for an image; 0: the device declines the image.
 * The first bytes hold the coefficients (jpeg_progressive_planes). */
size_t jpeg_progressive_work_bytes(const struct jpeg_frame *frame, uint32_t file_bytes,
                                   bool luma_only);

/* Fills the planes of the components that the decoder decodes; returns their number, 1 or 3. */
uint32_t jpeg_progressive_planes(const struct jpeg_frame *frame, bool luma_only, uint8_t *work,
                                 struct jpeg_plane *planes);

/* Writes the descriptors of a batch to `to`, host memory of `bytes` bytes, multiple of 16, and
 * fills *batch. Returns the number of bytes that the descriptors take. If they take more than
 * `bytes`, it writes none. Every image must have a work size other than 0.
 * count: 1 to JPEG_PROGRESSIVE_BATCH_MAX. */
size_t jpeg_progressive_describe(const struct jpeg_progressive_image *images, uint32_t count,
                                 void *to, size_t bytes, struct jpeg_progressive_batch *batch);

/* Enqueues the decoding of a batch. descriptors: device address, multiple of 256 bytes, of the
 * uploaded descriptors, which the kernels also write. The coefficients of an image are valid only
 * if its verdict is JPEG_SCANS_COMPLETE. Returns a cudaError_t. */
int jpeg_progressive_decode(const struct jpeg_progressive_batch *batch, void *descriptors,
                            struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
