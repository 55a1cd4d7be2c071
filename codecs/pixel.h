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

/* What the kept bytes depend on, apart from the contents of the profile. */
struct codec_pixel_key {
    const struct format *format;
    struct encoder_settings encoder;
    struct image_density density;
    uint32_t channels, restart_interval;
    int orientation, bilevel;
    size_t icc_bytes, capacity;
};

/* Enough for the usual profile of sRGB, which has 3,144 bytes. */
#define CODEC_PIXEL_ICC_BYTES 3400
#define CODEC_PIXELS_KEPT     2 /* some images have a profile, others none */

struct codec_pixel {
    struct codec_pixel_key key; /* key.format is NULL: nothing is kept */
    size_t bytes;               /* of `file`: its beginning */
    uint8_t icc[CODEC_PIXEL_ICC_BYTES];
    uint8_t file[2048 + CODEC_PIXEL_ICC_BYTES];
};

/* The last pixels that a context encoded without EXIF and XMP. The files of the images of a set
 * often begin with the same bytes, and the library takes some microseconds to write them, and more
 * for a profile. */
struct codec_pixels {
    struct codec_pixel of[CODEC_PIXELS_KEPT];
    size_t last; /* the one that was found or kept last */
};

/* Those of the context (codec.c). */
struct codec_pixels *codec_pixels_of(struct codec_context *context);

/* Writes the first bytes of the file of a pixel to `to`: at most `capacity`. Errors: those of
 * codec_encode. */
enum status codec_encode_pixel(struct codec_context *context, const struct encode_request *request,
                               uint32_t channels, uint8_t *to, size_t capacity,
                               struct error *error) MUST_CHECK;
