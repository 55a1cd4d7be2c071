/*
 * ssim_quality.h - finds the quality at which a decoded file has at least a given similarity to its
 * image (ssim_search.h).
 */
#pragma once

#include "codecs/codec.h"
#include "codecs/ssim_search.h"

/* The memory for codec_find_ssim besides src and the buffer, in bytes: a file and its image, and
 * the encoder or the decoder. */
size_t codec_ssim_bytes(const struct format *format, uint32_t width, uint32_t height,
                        uint32_t channels, const struct encoder_settings *settings,
                        size_t metadata_bytes);

/* Finds the lowest quality, of encoder.quality_min to encoder.quality of the request, whose decoded
 * file has at least the similarity encoder.ssim, or takes the highest. Sets *found to the quality
 * and its similarity. The format is one that is also read. buffer: at least 4096 bytes, which are
 * overwritten. Errors: those of codec_encode; cancelled if the caller of the request is gone; and
 * encode_failed if a file is larger than codec_encoded_bytes, or cannot be read. */
enum status codec_find_ssim(struct codec_context *context, const struct image *src,
                            const struct encode_request *request, uint8_t *buffer, size_t capacity,
                            struct ssim_trial *found, struct error *error) MUST_CHECK;
/* As codec_find_ssim, but only measures the similarity at the quality of the request. */
enum status codec_measure_ssim(struct codec_context *context, const struct image *src,
                               const struct encode_request *request, uint8_t *buffer,
                               size_t capacity, struct ssim_trial *found,
                               struct error *error) MUST_CHECK;
