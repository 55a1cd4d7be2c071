/*
 * image.h - describes an image in memory.
 *
 * struct image does not own its pixels. Rows run from top to bottom. Channels are interleaved: 1
 * gray, 3 RGB, 4 RGBA with alpha that is not premultiplied. Samples have 8 bits. A deep image has
 * samples of 16 bits in the processor's byte order, and `channels` counts each of them as two: 2
 * gray, 6 RGB, 8 RGBA. So the bytes of pixels, rows and images follow from `channels` alone. Only
 * the codecs and passes that say so take deep images.
 *
 * gpu/ includes few headers of codecs/: this one, jpeg/frame.h, jpeg/zigzag.h, png/frame.h,
 * png/png_tiles.h, webp/frame.h, avif/frame.h, quality_search.h,
 * ssim_search.h and median_cut.h.
 *
 * The padding rule: each row starts at a multiple of STRIDE_ALIGN and owns the next
 * image_stride(width, channels) bytes, which are its pixels and up to STRIDE_ALIGN - 1 bytes of
 * padding. Codecs and passes (kernels that compute an image, gpu/plan/pass.h) may read and write
 * the bytes that the rows of their images own, and no others. Padding may have any value: it must
 * not influence a pixel. So a kernel may access a row in aligned units of up to STRIDE_ALIGN bytes,
 * if each unit has a byte of a pixel of the row. If the input of a pass is a rectangle of a larger
 * image, its padding is pixels of that image, which the pass may only read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/limits.h"

struct image {
    uint8_t *pixels;
    uint32_t width, height; /* pixels */
    uint32_t channels;      /* 1, 3 or 4; if it is deep 2, 6 or 8 */
    size_t stride;          /* bytes from one row to the next, a multiple of STRIDE_ALIGN */
};

/* A rectangle of an image, in pixels. */
struct image_part {
    uint32_t x, y, width, height;
};

/* The colours that a decoder produces. */
enum decode_as {
    DECODE_COLOUR, /* gray, RGB or RGBA, like the file */
    DECODE_LUMA,   /* 1 channel: Y of a YCbCr file, or gray of a gray file */
    DECODE_YCC,    /* 3 channels: Y, Cb and Cr of a YCbCr file, all at full size */
    DECODE_CMYK,   /* 4 channels: C, M, Y and K of a CMYK file as it stores them, 255 for no ink */
    DECODE_DEEP    /* as DECODE_COLOUR, but a deep image, of a file with more than 8 bits */
};

/* Whether images with these channels are deep. */
static inline bool image_is_deep(uint32_t channels)
{
    return channels == 2 || channels > 4;
}

/* The samples of a pixel. */
static inline uint32_t image_samples(uint32_t channels)
{
    return image_is_deep(channels) ? channels / 2 : channels;
}

/* A side that is decoded at eighths/8 of its size, rounded up. eighths 0: the full size. */
#define DECODE_EIGHTHS 8

static inline uint32_t image_scaled(uint32_t side, uint32_t eighths)
{
    return eighths ? (side * eighths + DECODE_EIGHTHS - 1) / DECODE_EIGHTHS : side;
}

/* Rounds up to a multiple of BUFFER_ALIGN. */
static inline size_t buffer_align(size_t bytes)
{
    return (bytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
}

/* Returns the bytes that a row owns: those of its pixels, padded to STRIDE_ALIGN. */
static inline size_t image_stride(uint32_t width, uint32_t channels)
{
    size_t row = (size_t)width * channels;
    return (row + STRIDE_ALIGN - 1) / STRIDE_ALIGN * STRIDE_ALIGN;
}

/* Returns the bytes of an image with padded rows. Both sides are at most SIDE_CEILING. */
static inline size_t image_bytes(uint32_t width, uint32_t height, uint32_t channels)
{
    return image_stride(width, channels) * height;
}
