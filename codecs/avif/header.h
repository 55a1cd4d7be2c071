/*
 * header.h - writes what an AVIF has before its coded image: boxes and metadata.
 *
 * The file is that of the AV1 Image File Format 1.1, the same around an image from the cores and
 * one from a GPU: ftyp, meta, and a box mdat with EXIF, XMP and, at its end, the coded image.
 * libavif writes the other AVIFs itself (codecs/confined/avif/avif_encode.c).
 */
#pragma once

#include "codecs/avif/frame.h"
#include "codecs/codec.h"

/* A coded image without alpha: full range, BT.601 (matrix coefficients 6), 8 bits per channel. */
struct avif_coded {
    uint32_t width, height, channels; /* channels: 1, or any other number for colours */
    uint8_t av1c[4]; /* the box av1C without the sequence header (AV1-ISOBMFF 1.2, 2.3.3) */
};

/* The efforts of gpuimgd's own encoder, in the order of its own (gpu/avif/encode.h). libaom has the
 * others, as the speed 10 less the effort of avifenc, and at these efforts what the own encoder
 * does not write: quality 100, and alpha that is not opaque. */
#define AVIF_OWN_EFFORT_MIN  1
#define AVIF_OWN_EFFORT_MAX  3
#define AVIF_OWN_QUALITY_MAX 99

/* Whether the own encoder writes an AVIF with these settings, if the image is opaque. */
bool avif_is_own(const struct encoder_settings *settings);
/* The effort of the own encoder. The settings are its. */
static inline int avif_own_effort(const struct encoder_settings *settings)
{
    return settings->effort - AVIF_OWN_EFFORT_MIN;
}

/* Returns the largest size of a prelude. metadata_bytes: the size of ICC profile, EXIF and XMP
 * together. */
size_t avif_prelude_bytes(size_t metadata_bytes);

/* Makes the prelude of an image with the request's orientation and metadata. `to` has
 * avif_prelude_bytes(). A profile that is not for RGB, or for an image with one channel, is left
 * out. */
void avif_prelude_make(const struct encode_request *request, const struct avif_coded *coded,
                       struct avif_prelude *to);
