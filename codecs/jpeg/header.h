/*
 * header.h - the bytes that a JPEG has before its entropy-coded data, for an encoder on a device.
 *
 * They are libjpeg's: codec_encode writes an image of one pixel with the same settings, and the
 * result is cut after the SOS segment. Of the segments, only SOF0 depends on the size and on the
 * sampling of the image.
 */
#ifndef GPUIMGD_CODECS_JPEG_HEADER_H
#define GPUIMGD_CODECS_JPEG_HEADER_H

#include "codecs/codec.h"

/* More than a header without a profile: 623 bytes for RGB. */
#define JPEG_HEADER_LENGTH_MAX 640
/* A profile is cut into segments of at most 65535 bytes: a length, 14 bytes about the profile, and
 * a part of it. A marker of 2 bytes is before each. */
#define JPEG_ICC_PART_BYTES (65535 - 2 - 14)
#define JPEG_ICC_HEAD_BYTES (2 + 2 + 14)

struct jpeg_header {
    uint32_t length;       /* of bytes: up to the end of the SOS segment */
    uint32_t frame_at;     /* offset of the SOF0 marker in bytes */
    uint16_t quant[2][64]; /* of Y, and of Cb and Cr, in natural order; gray: the second is zero */
    uint8_t bytes[];
};

/* Returns the size of the struct, with the bytes of any header whose image has so many channels and
 * so large a profile; 0: no profile. */
size_t jpeg_header_size(uint32_t channels, size_t icc_bytes);

/* Makes the header of a baseline JPEG with 1 or 3 channels. Its size is 1 by 1 pixel, and that of
 * RGB has 4:2:0 sampling: call jpeg_header_set_frame for each image. The same header serves all
 * images with this request. header: jpeg_header_size() bytes. request->encoder.progressive must be
 * 0. Runs on a worker thread. Errors: those of codec_encode. */
enum status jpeg_header_make(struct codec_context *context, const struct encode_request *request,
                             uint32_t channels, struct jpeg_header *header,
                             struct error *error) MUST_CHECK;

/* Sets the size, and the sampling factors of Y: 1 1 (also for gray), 2 1 or 2 2. */
void jpeg_header_set_frame(struct jpeg_header *header, uint32_t width, uint32_t height, uint32_t h,
                           uint32_t v);

#endif
