/*
 * progressive.h - decodes the scans of progressive JPEGs on a device to coefficients.
 *
 * The coefficients are those that jpeg_read_coefficients of libjpeg-turbo returns, in the layout of
 * coefficients.h; decode.h turns them into pixels. The device declines an image for which
 * libjpeg-turbo would warn, and other irregular images: the caller must decode them on the host.
 *
 * A batch of images shares the kernel launches. The kernels read descriptors of the images, which
 * the host writes and uploads:
 *
 *     for each image: images[i].work = device memory of jpeg_progressive_work_bytes(...) bytes;
 *     bytes = jpeg_progressive_describe(images, count, NULL, 0, &batch);
 *     jpeg_progressive_describe(images, count, pinned, bytes, &batch);
 *     cudaMemcpyAsync(descriptors, pinned, bytes, cudaMemcpyHostToDevice, stream);
 *     jpeg_progressive_decode(&batch, descriptors, stream);
 *     jpeg_progressive_complete(&batch, descriptors, stream);
 *
 * The first call takes some tens of milliseconds, the second one microseconds. An image can be
 * completed as soon as its own scans have ended, in another batch: then its descriptors are written
 * again.
 *
 * The functions may be called on any thread. They neither allocate memory nor wait for the device.
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

/* Whether an image was decoded, or why the device has declined it. If several scans find errors,
 * the largest value counts. */
enum jpeg_progressive_verdict {
    JPEG_SCANS_COMPLETE,
    JPEG_SCANS_STOPPED, /* a scan that this one refines has failed; its verdict is larger */
    JPEG_SCANS_MARKER,  /* a wrong or missing restart marker, or another marker in the data */
    JPEG_SCANS_LENGTH,  /* bits are missing, or bytes are left over */
    JPEG_SCANS_CODE,    /* bits that are no Huffman code, or an invalid symbol */
    JPEG_SCANS_INDEX,   /* a coefficient after the last one of the scan (Se) */
    JPEG_SCANS_RUN,     /* an end-of-band run that extends beyond a restart marker or the end */
    JPEG_SCANS_VALUE,   /* a DC coefficient that does not fit into 16 bits */
};

/* An image of a batch. */
struct jpeg_progressive_image {
    const struct jpeg_frame *frame;
    const uint8_t *file; /* Device address of the whole file, a multiple of 16. The memory must be
                            readable up to the next multiple of 16 bytes after the file. */
    uint32_t file_bytes;
    bool luma_only;    /* only the coefficients of the first component are needed */
    uint8_t *work;     /* device address, a multiple of 256 */
    uint32_t *verdict; /* receives an enum jpeg_progressive_verdict; device or mapped memory */
    uint32_t *ended;   /* Optional: mapped memory that receives 1 when jpeg_progressive_decode has
                          decoded the image's scans, maybe long before those of others. */
};

/* What jpeg_progressive_decode must know of a batch. jpeg_progressive_describe fills it, and
 * callers do not use its members. */
struct jpeg_progressive_batch {
    uint32_t image_count, scan_count;
    uint32_t scans_at, tables_at; /* offsets in the descriptors, in bytes */
    uint32_t groups_max; /* groups (coefficients.h) of the largest component of all images */
};

/* Returns the bytes of device memory that an image needs besides its file; 0: the device cannot
 * decode it. Their first part holds the coefficients (jpeg_progressive_planes). */
size_t jpeg_progressive_work_bytes(const struct jpeg_frame *frame, uint32_t file_bytes,
                                   bool luma_only);

/* Sets *planes to the coefficients of the components that are decoded. Returns their number, 1 or
 * 3. work: as in jpeg_progressive_image. */
uint32_t jpeg_progressive_planes(const struct jpeg_frame *frame, bool luma_only, uint8_t *work,
                                 struct jpeg_plane *planes);

/* Writes the descriptors of 1 to JPEG_PROGRESSIVE_BATCH_MAX images to `descriptors`, host memory of
 * `bytes` bytes whose address is a multiple of 16, and fills *batch. Returns the number of bytes
 * that the descriptors take. If this is more than `bytes`, nothing is written.
 * jpeg_progressive_work_bytes must not be 0 for any image. */
size_t jpeg_progressive_describe(const struct jpeg_progressive_image *images, uint32_t count,
                                 void *descriptors, size_t bytes,
                                 struct jpeg_progressive_batch *batch);

/* Enqueues the decoding of all scans of a batch. descriptors: the uploaded descriptors, at a device
 * address that is a multiple of 256; the kernels also write to them. Returns a cudaError_t. */
int jpeg_progressive_decode(const struct jpeg_progressive_batch *batch, void *descriptors,
                            struct CUstream_st *stream);
/* Enqueues the rest, for images whose scans were decoded: sets their verdicts, and completes their
 * coefficients, which are valid only if the verdict is JPEG_SCANS_COMPLETE. descriptors: as above.
 * The file need not be there any more. Returns a cudaError_t. */
int jpeg_progressive_complete(const struct jpeg_progressive_batch *batch, void *descriptors,
                              struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
