/*
 * png_stream.h - decodes the usual PNGs around libpng: 8-bit gray, RGB and RGBA without interlace.
 *
 * It inflates the IDAT chunks into a window (inflate.h) and unfilters each row from there into the
 * image (unfilter.h), 2.5 to 3 times as fast as libpng with zlib. It checks all that libpng
 * checks, and gives up at the first doubt. libpng then reads the same rows again and finds the
 * verdict, its message and the pixels, so a damaged file costs at most twice its time.
 */
#pragma once

#include "codecs/png/png_state.h"

/* Whether png_stream_read is for images of this kind. Call it after png_read_info. */
bool png_stream_takes(const struct png_state *state);

/* Its memory for such an image. It depends on the width, but hardly on the height. */
size_t png_stream_bytes(uint32_t width, uint32_t height, uint32_t channels);

/* Decodes the image of a file that libpng has read up to the data of the first IDAT chunk. Returns
 * true if all of the file is valid, up to IEND. Otherwise libpng must go on from where it is: some
 * rows may have been written, state->rows_done of them, and the deadline may have passed. */
bool png_stream_read(struct png_state *state, const struct image *dst);
