/*
 * quality.h - finds the quality at which an encoded image has at most a given number of bytes
 * (quality_search.h).
 */
#pragma once

#include "codecs/codec.h"
#include "codecs/quality_search.h"

/* Finds the highest quality, at most request->encoder.quality, for a file of at most
 * request->encoder.max_bytes, which is not 0. buffer: at least 4096 bytes, which are overwritten.
 * Each encode checks the deadline of the request. Errors: those of codec_encode, and encode_failed
 * if the file is too large even at the lowest quality. */
enum status codec_find_quality(struct codec_context *context, const struct image *src,
                               const struct encode_request *request, uint8_t *buffer,
                               size_t capacity, int *quality, struct error *error) MUST_CHECK;
