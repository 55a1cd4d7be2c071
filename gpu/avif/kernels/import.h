/*
 * import.h - converts sRGB pixels to samples of YCbCr, by BT.601 with the full range, as in JPEG
 * files.
 *
 *   Y  = 0.299 R + 0.587 G + 0.114 B
 *   Cb = 128 + (B - Y) / 1.772        Cr = 128 + (R - Y) / 1.402
 *
 * in integers with 16 fractional bits, rounded once. A chroma sample is that of the mean of 2 x 2
 * pixels; at an odd right or lower edge, the last pixels count twice.
 */
#pragma once

#include "gpu/simt/simt.h"

struct image;
struct avif_encoder;

/* Fills the planes of the source. */
void avif_import(const struct image *source, struct avif_encoder *encoder);

DEVICE int avif_luma(int red, int green, int blue)
{
    return (19595 * red + 38470 * green + 7471 * blue + (1 << 15)) >> 16;
}

/* Of the sums of four pixels. Also clips: blue alone would be 128 + 127.5. */
DEVICE int avif_cb(int red, int green, int blue)
{
    int sample = (-11059 * red - 21709 * green + 32768 * blue + (128 << 18) + (1 << 17)) >> 18;
    return sample > 255 ? 255 : sample;
}

DEVICE int avif_cr(int red, int green, int blue)
{
    int sample = (32768 * red - 27439 * green - 5329 * blue + (128 << 18) + (1 << 17)) >> 18;
    return sample > 255 ? 255 : sample;
}
