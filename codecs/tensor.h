/*
 * tensor.h - the formats npy and raw: an array of numbers in C order, with the header of NumPy's
 * format version 1.0 before it, or without a header.
 *
 * The numbers are computed by the last pass of a plan (gpu/ops/tensor.h), so there is nothing to
 * encode. The daemon writes the header before them and passes both on. Any thread.
 */
#pragma once

#include "conf/format.h"

#include <stdint.h>

/* Of all headers: their text is padded with spaces, as numpy.save does. */
#define NPY_HEADER_BYTES 128

/* The size of the format's header, which may be 0. */
size_t tensor_header_bytes(const struct format *format);
/* Writes the header of a tensor made from an image of this size. to: tensor_header_bytes(). */
void tensor_write_header(const struct format *format, const struct encoder_settings *settings,
                         uint32_t width, uint32_t height, uint32_t channels, uint8_t *to);
/* Writes the header of an npy file that holds `count` tensors of this shape, one after the other.
 */
void tensor_write_array_header(const struct encoder_settings *settings, uint64_t count,
                               const uint32_t shape[3], uint8_t to[NPY_HEADER_BYTES]);
/* Sets the lengths of the axes, from the outermost to the innermost. */
void tensor_shape(const struct encoder_settings *settings, uint32_t width, uint32_t height,
                  uint32_t channels, uint32_t shape[3]);
/* The name of the numbers' type in NumPy: "float16". */
const char *tensor_dtype(const struct encoder_settings *settings);
