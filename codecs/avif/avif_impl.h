/*
 * avif_impl.h - the functions of the AVIF codec, for avif.c.
 *
 * libavif runs in another process, gpuimgd-codec (codecs/process/transfer.h).
 */
#pragma once

#include "codecs/process/transfer.h"

/* The metadata exists this many times while libavif encodes: in the region, in the image, in
 * libavif's copy of the image, in its items, in the file, and once more in the old buffer of the
 * file while that grows. */
#define AVIF_METADATA_COPIES 6

/* Returns NULL if libavif reads AVIFs (writes: writes them), else the reason, as codec_refusal. */
const char *libavif_refusal(bool writes);

codec_encode_fn avif_encode;
size_t avif_encoded_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings);
size_t avif_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings);
size_t avif_decoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings);

codec_encode_fn libaom_encode;
size_t libaom_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                            const struct encoder_settings *settings);
