/* webp_impl.h - the functions of the WebP codec, for webp.c. */
#pragma once

#include "codecs/codec_impl.h"

codec_probe_fn webp_probe;
codec_decode_fn webp_decode;
codec_next_frame_fn webp_next_frame;
codec_encode_fn webp_encode;
size_t webp_encoded_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings);
size_t webp_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings);
size_t webp_decoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings);
uint64_t webp_encoder_blind_ns(uint32_t channels, const struct encoder_settings *settings);
