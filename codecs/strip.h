/*
 * strip.h - some frames of an animation side by side, as one image: a contact strip.
 *
 * The frames are spread evenly, from the first to the last one; an animation with fewer frames
 * gives all of them.
 */
#pragma once

#include "codecs/codec.h"

/* As codec_probe, but the header is that of a strip of `count` frames. 0, an image with one frame,
 * or a format whose frames are not composed: as codec_probe, and info->strip is 0. Errors: also
 * image_too_large for a strip, and decode_failed if codec_has_all_frames is false. */
enum status strip_probe(struct codec_context *context, const uint8_t *bytes, size_t length,
                        const struct codec_limits *limits, uint32_t count, struct image_info *info,
                        struct error *error) MUST_CHECK;
/* As codec_decode, also for a strip. */
enum status strip_decode(struct codec_context *context, const uint8_t *bytes, size_t length,
                         const struct image_info *info, const struct decode_request *request,
                         const struct codec_limits *limits, const struct image *dst,
                         struct error *error) MUST_CHECK;
