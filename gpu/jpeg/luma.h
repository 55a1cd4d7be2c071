/*
 * luma.h - samples of the first component of JPEGs, from coefficients on the device.
 *
 * The samples are those of libjpeg-turbo's "islow" inverse DCT. The host must decode an image with
 * values for which libjpeg-turbo's functions differ among themselves.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "gpu/jpeg/coefficients.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Verdict of an image whose values exceed the range of libjpeg-turbo's 16-bit arithmetic, or whose
 * samples exceed the range that its table limits. Larger than the verdicts of the decoders. */
#define JPEG_SAMPLES_RANGE 64

struct jpeg_luma {
    struct jpeg_plane plane;
    uint16_t quant[JPEG_BLOCK]; /* in natural order */
    uint8_t *samples;  /* device address, multiple of 8 bytes: 8 * plane.down rows */
    size_t pitch;      /* bytes per row, multiple of 8, 8 * plane.across at least */
    uint32_t *verdict; /* device address. Nothing is done if it is not 0. */
};

/* Enqueues the inverse DCT of a batch. images: device address. groups_max: of 32 blocks each, of
 * the largest image. Returns a cudaError_t. */
int jpeg_store_luma(const struct jpeg_luma *images, uint32_t count, uint32_t groups_max,
                    struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
