/*
 * encode.h - encodes images as AV1 still pictures, the payload of AVIF files.
 *
 * The output has the OBUs of one AVIF item: a sequence header with reduced_still_picture_header,
 * and one frame (AV1 specification; profile 0, 8 bits, 4:2:0 or monochrome). The encoder consists
 * of stages that run on the host or on a device, with the same bits (encode_impl.h).
 *
 * Colours are assumed to be sRGB; they are converted to YCbCr by BT.601 with the full range
 * (import.h). A file describes them as nclx: primaries 1, transfer 13, matrix 6, full range.
 *
 * On a device, a batch of images shares the kernel launches. The kernels read a description of the
 * images, which the host writes and uploads:
 *
 *     for each image: images[i].work = device memory of avif_device_work_bytes(...) bytes;
 *     bytes = avif_encode_describe(images, count, NULL, 0, &batch);
 *     avif_encode_describe(images, count, pinned, bytes, &batch);
 *     cudaMemcpyAsync(description, pinned, bytes, cudaMemcpyHostToDevice, stream);
 *     avif_encode_launch(&batch, description, stream);
 *
 * All functions may be called on any thread. They neither allocate memory nor wait for the device.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"
#include "conf/status.h"
#include "gpu/avif/frame/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the bytes of memory that an image needs while it is encoded, besides its pixels and the
 * output. 0: the encoder does not take the image, because it has a side of more than SIDE_CEILING,
 * or is too large for 64 tiles by 64. */
size_t avif_encode_work_bytes(uint32_t width, uint32_t height, uint32_t channels, int effort);

/* Returns a capacity that suffices for photographs at any quality, but not for all noise. */
size_t avif_encode_capacity(uint32_t width, uint32_t height, uint32_t channels);

/* Sets the first four bytes of the av1C box of the image (AV1-ISOBMFF, 2.3.3). */
void avif_encode_config(uint32_t width, uint32_t height, uint32_t channels, uint8_t av1c[4]);

/* Encodes pixels: 1 channel as monochrome, 3 channels, or 4 whose alpha is ignored. work: memory of
 * avif_encode_work_bytes(), aligned to BUFFER_ALIGN. is_stopped, which may be NULL, is called with
 * `context` for every row of superblocks of a tile; if it returns true, the result is
 * STATUS_CANCELLED. STATUS_ENCODE_FAILED: the output does not fit in `capacity`. *bytes: of the
 * OBUs, 0 unless the result is STATUS_OK. */
enum status avif_encode_pixels(const struct image *source,
                               const struct avif_encode_options *options,
                               bool (*is_stopped)(void *context), void *context, void *work,
                               uint8_t *obus, size_t capacity, size_t *bytes) MUST_CHECK;

/* ---- on a device ---- */

struct CUstream_st;

/* The only effort of devices. */
#define AVIF_DEVICE_EFFORT 0
/* Alignment of pixels, files and descriptions. */
#define AVIF_ENCODE_ALIGN 16

struct avif_encode_image {
    struct image source; /* pixels in device memory: height * stride bytes; 1, 3 or 4 channels */
    struct avif_encode_options options;
    const uint8_t *header; /* The bytes of the file before the OBUs, and then those after them. In
                              pinned or device memory. */
    size_t header_bytes;   /* before the OBUs; may be 0 */
    size_t trailer_bytes;  /* after them, at header + header_bytes */
    /* Offsets in the header of numbers of 32 bits, the highest byte first, that the kernels set: to
     * the bytes of the OBUs (box iloc), and to the bytes from media_at to the end of the OBUs (the
     * size of the box mdat, which begins there). Both 0: the header has none. */
    uint32_t image_length_at, media_at;
    uint8_t *work;        /* device memory of avif_device_work_bytes(), aligned to BUFFER_ALIGN */
    uint8_t *file;        /* Receives the file: device or pinned memory of `capacity` bytes. */
    size_t capacity;      /* from avif_device_capacity() to INT32_MAX */
    uint32_t *file_bytes; /* Device or pinned memory: receives the length of the file, or 0 if the
                             device declines the image: it has more tokens than the work memory
                             holds, or a file longer than `capacity`. */
};

/* What avif_encode_launch must know of a batch. avif_encode_describe fills it, and callers do not
 * use its members. */
struct avif_encode_batch {
    uint32_t image_count;
    uint32_t superblocks_max, rows_max; /* of an image */
    size_t images_at;                   /* offset in the description */
};

/* Returns the capacity for an image: enough for photographs at any quality, but not for all noise.
 * 0: devices do not take the image, because it would need several tiles, or the bytes around it are
 * too many. */
size_t avif_device_capacity(uint32_t width, uint32_t height, uint32_t channels, size_t header_bytes,
                            size_t trailer_bytes);

/* Returns the bytes of device memory that an image needs while it is encoded at this quality: about
 * 21 per pixel up to 80, 30 up to 95, and else 39. 0: devices do not take the image. */
size_t avif_device_work_bytes(uint32_t width, uint32_t height, uint32_t channels, int quality);

/* Writes the description of one or more images to `description`, host memory of `bytes` bytes, and
 * fills *batch. Returns the size of the description. If this is more than `bytes`, nothing is
 * written. Returns SIZE_MAX if a member of an image does not fulfil its conditions above, or the
 * batch has too many images for one launch. */
size_t avif_encode_describe(const struct avif_encode_image *images, uint32_t count,
                            void *description, size_t bytes, struct avif_encode_batch *batch);

/* Enqueues the encoding of a batch. description: the uploaded description, at a device address that
 * is a multiple of AVIF_ENCODE_ALIGN. All memory must stay valid until the stream has run the
 * kernels. Returns a cudaError_t. */
int avif_encode_launch(const struct avif_encode_batch *batch, void *description,
                       struct CUstream_st *stream) MUST_CHECK;

#ifdef __cplusplus
}
#endif
