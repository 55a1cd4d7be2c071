/*
 * image.h - a caller-owned view of 8-bit pixels.
 *
 * The one header that gpu takes from codecs. A view owns nothing: whoever provided `pixels`
 * frees them. Rows are top to bottom, channels interleaved (1 gray, 3 RGB, 4 RGBA, alpha not
 * premultiplied), bytes between the end of a row and `stride` are padding of no meaning.
 */
#ifndef GPUIMGD_CODECS_IMAGE_H
#define GPUIMGD_CODECS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "conf/limits.h"

struct image {
    uint8_t *pixels;
    uint32_t width, height; /* pixels */
    uint32_t channels;      /* 1, 3 or 4 */
    size_t stride;          /* bytes from one row to the next, a multiple of STRIDE_ALIGN */
};

/* What a decoder makes of a file's colours. */
enum decode_as {
    DECODE_COLOUR, /* gray, RGB or RGBA, as the file is */
    DECODE_LUMA,   /* 1 channel: the Y of a YCbCr file, the gray of a gray one */
    DECODE_YCC     /* 3 channels: Y, Cb and Cr of a YCbCr file, all of full size */
};

/* A decoder that scales gives M/8 of both sides, rounded up; M = 8, or 0: in full. */
#define DECODE_EIGHTHS 8

static inline uint32_t image_scaled(uint32_t side, uint32_t eighths)
{
    return eighths ? (side * eighths + DECODE_EIGHTHS - 1) / DECODE_EIGHTHS : side;
}

/* The next multiple of BUFFER_ALIGN, where the next buffer begins. */
static inline size_t buffer_align(size_t bytes)
{
    return (bytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
}

/* Bytes of one row of the given width, padded to STRIDE_ALIGN. */
static inline size_t image_stride(uint32_t width, uint32_t channels)
{
    size_t row = (size_t)width * channels;
    return (row + STRIDE_ALIGN - 1) / STRIDE_ALIGN * STRIDE_ALIGN;
}

/* Bytes of a whole image with such rows. Both sides are at most SIDE_CEILING. */
static inline size_t image_bytes(uint32_t width, uint32_t height, uint32_t channels)
{
    return image_stride(width, channels) * height;
}

#endif
