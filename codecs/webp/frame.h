/*
 * frame.h - the contents of WebP headers, for the encoder on GPUs (gpu/webp/).
 *
 * The struct has no pointers, so it can be copied to a GPU.
 */
#pragma once

#include <stdint.h>

/* What a GPU that encodes an image needs: the bytes around the VP8 chunk. codecs/webp/header.c
 * fills it in. */
struct webp_prelude {
    uint32_t header_bytes, trailer_bytes;
    uint8_t bytes[]; /* the file up to its VP8 chunk, with 0 as its size; then all after this
                        chunk */
};
