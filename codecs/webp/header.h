/*
 * header.h - writes what a WebP has around its image: the RIFF header, and chunks with metadata
 * (RFC 9649, section 2.7).
 *
 * VP8X and ICCP come before the image, EXIF and XMP after it. The same functions write them around
 * an image of libwebp and one of a GPU.
 */
#pragma once

#include "codecs/codec.h"
#include "codecs/webp/frame.h"

/* A sink for a file. */
struct webp_out {
    struct codec_sink *sink;
    size_t used; /* bytes in the sink's buffer */
    struct error *error;
};

/* NULL: there is none. */
struct webp_metadata {
    const uint8_t *icc, *exif, *xmp;
    size_t icc_bytes, exif_bytes, xmp_bytes;
};

struct webp_canvas {
    uint32_t width, height;
    bool has_alpha;
    uint32_t image_bytes; /* of the chunks with the image */
};

/* false: out->error is set. */
bool webp_put(struct webp_out *out, const void *bytes, size_t count) MUST_CHECK;
bool webp_put_end(struct webp_out *out) MUST_CHECK;

/* The metadata of the request, without a profile that does not fit the pixels. */
struct webp_metadata webp_metadata_of(const struct encode_request *request, uint32_t channels);
/* The size of the chunks with metadata. 0: there is none. */
uint32_t webp_metadata_bytes(const struct webp_metadata *metadata);
/* Writes what comes before the image: without metadata only the RIFF header. */
bool webp_put_header(struct webp_out *out, const struct webp_metadata *metadata,
                     const struct webp_canvas *canvas) MUST_CHECK;
/* Writes what comes after the image. */
bool webp_put_trailer(struct webp_out *out, const struct webp_metadata *metadata) MUST_CHECK;

/* Whether devices can write a WebP with these settings: their encoder has one effort. */
bool webp_is_for_devices(const struct encoder_settings *settings);

/* Returns the largest size of a prelude. metadata_bytes: the size of ICC profile, EXIF and XMP
 * together. */
size_t webp_prelude_bytes(size_t metadata_bytes);

/* Makes the prelude of a lossy WebP without alpha. `to` has webp_prelude_bytes(). channels: a
 * profile is not written for 1. */
void webp_prelude_make(const struct encode_request *request, uint32_t width, uint32_t height,
                       uint32_t channels, struct webp_prelude *to);

/* The version of the linked libwebp: 0x010203 for 1.2.3. 0: this program was built without it. */
int webp_library_version(void);
