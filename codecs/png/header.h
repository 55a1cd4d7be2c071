/*
 * header.h - makes the prelude of a PNG that a GPU encodes: all bytes before the first IDAT chunk.
 *
 * The prelude must be the one that the encoder of the CPU would write. So that encodes an image of
 * one pixel with the same settings. The file is cut before its pixels, and the real size is written
 * into the IHDR chunk. Nothing else before the pixels depends on the size.
 */
#pragma once

#include "codecs/codec.h"
#include "codecs/png/frame.h"

/* Whether devices can write a PNG with these settings: their encoder is the own one (png_tiles.h),
 * for 8 bits per sample. Only these PNGs have preludes. */
bool png_is_for_devices(const struct encoder_settings *settings);

/* Returns the largest size of a prelude. metadata_bytes: the size of ICC profile, EXIF and XMP
 * together. */
size_t png_prelude_bytes(size_t metadata_bytes);

/* Makes the prelude of a PNG. `to` has png_prelude_bytes(). channels: 1, 3 or 4; a profile is not
 * written for 1. Call it on a worker thread. Errors: those of codec_encode. */
enum status png_prelude_make(struct codec_context *context, const struct encode_request *request,
                             uint32_t width, uint32_t height, uint32_t channels,
                             struct png_prelude *to, struct error *error) MUST_CHECK;
