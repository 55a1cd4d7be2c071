/*
 * pixel.h - encodes an image of one pixel, for the bytes that its file has before its pixels.
 *
 * These are the same for an image of any size, but for the fields with the size. A device that
 * encodes an image gets them from the host (codecs/jpeg/header.h, codecs/png/header.h).
 */
#pragma once

#include "codecs/codec.h"

/* The size of the ICC profile, EXIF and XMP together. */
size_t codec_metadata_bytes(const struct encode_request *request);

/* What the file of a pixel depends on, besides metadata. */
struct codec_pixel_key {
    const struct format *format;
    struct encoder_settings encoder;
    struct image_density density;
    uint32_t channels, restart_interval;
    int orientation, bilevel;
    size_t capacity;
};

/* The last pixel that a context encoded without metadata. The images of a set have the same one,
 * and libjpeg takes some microseconds for it. */
struct codec_pixel {
    struct codec_pixel_key key; /* without format: none */
    size_t bytes;
    uint8_t file[2048];
};

/* That of the context (codec.c). */
struct codec_pixel *codec_pixel_of(struct codec_context *context);

/* Encodes a pixel, and keeps the first bytes of the file: at most `capacity`. Errors: those of
 * codec_encode. */
enum status codec_encode_pixel(struct codec_context *context, const struct encode_request *request,
                               uint32_t channels, uint8_t *to, size_t capacity,
                               struct error *error) MUST_CHECK;
