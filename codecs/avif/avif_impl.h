/*
 * avif_impl.h - the functions of the AVIF codec, for avif.c.
 *
 * libavif runs in another process, gpuimgd-codec (codecs/process/process.h). Before a task, the
 * pipeline reserves info->codec_bytes or encoder_bytes for it. These are also the limits of the
 * process's memory, so a task cannot use more than was reserved.
 */
#pragma once

#include "codecs/codec_impl.h"
#include "codecs/process/process.h"

/* The metadata exists this many times while libavif encodes: in the region, in the image, in
 * libavif's copy of the image, in its items, in the file, and once more in the old buffer of the
 * file while that grows. */
#define AVIF_METADATA_COPIES 6

codec_probe_fn avif_probe;
codec_decode_fn avif_decode;
codec_encode_fn avif_encode;
size_t avif_encoded_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings);
size_t avif_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                          const struct encoder_settings *settings);

codec_encode_fn libaom_encode;
size_t libaom_encoder_bytes(uint32_t width, uint32_t height, uint32_t channels,
                            const struct encoder_settings *settings);

/* A view of `count` rows of an image, from `row` on. */
static inline struct image avif_rows_of(const struct image *image, uint32_t row, uint32_t count)
{
    struct image rows = *image;
    rows.pixels += row * image->stride;
    rows.height = count;
    return rows;
}

/* Whether the reply can be about the rows from `row` on. If not, hostile code runs in the codec
 * process. */
static inline bool avif_is_next_rows(const struct codec_reply *reply, const struct image *image,
                                     uint32_t row)
{
    uint64_t bytes = (uint64_t)reply->rows * image->width * image->channels;
    return reply->rows > 0 && reply->rows <= image->height - row && bytes <= CODEC_WINDOW_BYTES &&
           reply->at <= CODEC_WINDOW_BYTES - bytes;
}
