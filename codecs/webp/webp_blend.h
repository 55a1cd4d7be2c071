/*
 * webp_blend.h - lays a frame of a WebP animation over its canvas, with the bits of libwebp.
 *
 * The arithmetic is that of libwebp's WebPAnimDecoder for alpha that is not premultiplied. It
 * rounds down, so that a frame over transparent pixels can become darker by 1.
 */
#pragma once

#include "codecs/image.h"

/* The memory of a frame with alpha, in bytes. */
static inline size_t webp_blend_bytes(uint32_t width, uint32_t height)
{
    return image_bytes(width, height, 4);
}

/* over: RGBA. to: the same rectangle of the canvas, RGB or RGBA. cleared: another rectangle of the
 * canvas, where pixels are copied; pixels NULL: there is none. */
void webp_blend(const struct image *over, const struct image *to, const struct image *cleared);
