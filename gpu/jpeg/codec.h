/*
 * codec.h - the JPEG codec of a device, as plans and the CUDA engine use it.
 *
 * A plan reserves the codec's memory per job. The engine then shares launches among the jobs of a
 * batch. decode.h, progressive.h and encode.h declare the kernels' launches.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"
#include "codecs/jpeg/frame.h"
#include "gpu/jpeg/coefficients.h"

/* Returns the device memory for decoding the file, besides the file and the image; 0: the device
 * does not decode such files. */
size_t jpeg_decoder_bytes(const struct jpeg_frame *frame, size_t file_bytes, enum decode_as as,
                          uint32_t eighths);

/* Returns the device memory for encoding an image of 1 or 3 channels into a file of at most
 * `capacity` bytes, besides the image. h, v: the sampling factors of Y, as in encode.h. */
size_t jpeg_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels, uint32_t h,
                          uint32_t v, size_t capacity);

/* How the decoder of a progressive file divides its memory. */
struct jpeg_progressive_parts {
    bool luma_only;
    uint8_t *scans_work;        /* for jpeg_progressive_decode */
    uint32_t *scans_verdict;    /* in device memory */
    struct jpeg_plane planes[JPEG_COMPONENTS_MAX];
};

/* work: device memory of jpeg_decoder_bytes(), BUFFER_ALIGN aligned. The memory of the final step,
 * jpeg_decode_launch, begins there. */
struct jpeg_progressive_parts jpeg_progressive_divide(const struct jpeg_frame *frame,
                                                      size_t file_bytes, enum decode_as as,
                                                      uint32_t eighths, uint8_t *work);
