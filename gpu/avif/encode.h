/*
 * encode.h - encodes images as AV1 still pictures, the payload of AVIF files.
 *
 * The output has the OBUs of one AVIF item: a sequence header with reduced_still_picture_header,
 * and one frame (AV1 specification; profile 0, 8 bits, 4:2:0 or monochrome). The encoder consists
 * of stages that later run on a device with the same bits (encode_impl.h).
 *
 * Colours are assumed to be sRGB; they are converted to YCbCr by BT.601 with the full range
 * (import.h). A file describes them as nclx: primaries 1, transfer 13, matrix 6, full range.
 *
 * All functions may be called on any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"
#include "conf/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AVIF_EFFORT_MAX     2
#define AVIF_EFFORT_DEFAULT 1

struct avif_encode_options {
    int quality;     /* 1 to 99. About the PSNR of libaom through libavif at the same quality */
    int effort;      /* 0 to AVIF_EFFORT_MAX: smaller files for more time (frame.c) */
    bool unfiltered; /* no filters after the reconstruction: only tests use it */
};

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

#ifdef __cplusplus
}
#endif
