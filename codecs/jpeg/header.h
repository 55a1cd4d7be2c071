/*
 * header.h - makes the prelude of a JPEG that a GPU encodes: all bytes before the compressed data.
 *
 * The prelude must be the one that libjpeg would write. So libjpeg encodes an image of one pixel
 * with the same settings. The file is cut after its last header (the SOS segment), and the real
 * size is written into the SOF0 segment. Nothing else before the compressed data depends on the
 * size.
 */
#pragma once

#include "codecs/codec.h"
#include "codecs/jpeg/frame.h"

/* The sampling factors of Y; those of Cb and Cr are 1. Gray: 1 and 1. */
struct jpeg_sampling {
    uint8_t h, v;
};

static inline struct jpeg_sampling jpeg_sampling_of(enum subsampling subsampling)
{
    bool half_width = subsampling == SUBSAMPLING_420 || subsampling == SUBSAMPLING_422;
    bool half_height = subsampling == SUBSAMPLING_420 || subsampling == SUBSAMPLING_440;
    return (struct jpeg_sampling){half_width ? 2 : 1, half_height ? 2 : 1};
}

/* Returns the largest size of a prelude. metadata_bytes: the size of ICC profile, EXIF and XMP
 * together. */
size_t jpeg_prelude_bytes(size_t metadata_bytes);

/* Makes the prelude of a baseline JPEG. `to` has jpeg_prelude_bytes(). channels: 1 or 3; a profile
 * is only written for 3. request->encoder must be neither progressive nor optimize. Call it on a
 * worker thread. Errors: those of codec_encode. */
enum status jpeg_prelude_make(struct codec_context *context, const struct encode_request *request,
                              uint32_t width, uint32_t height, uint32_t channels,
                              struct jpeg_prelude *to, struct error *error) MUST_CHECK;
