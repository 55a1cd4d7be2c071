/*
 * tensor.h - the pass that makes a tensor of an image: an array of numbers in C order, without
 * padding.
 *
 * A number is the entry of a value 0 to 255 in the table of its channel. The host computes the
 * tables, so both engines only look up and move bytes. Without a normalization, an entry is the
 * value itself. Otherwise it is (v / 255 - mean) / std, each step in float32 as NumPy computes it,
 * and rounded to nearest, ties to even, for TENSOR_F16. TENSOR_U8 needs no tables.
 */
#pragma once

#include "conf/format.h"
#include "gpu/ops/pixel.h"

#define TENSOR_VALUES 256

/* The parameters of the pass. The constants are a table of TENSOR_VALUES numbers per channel of the
 * result, which follow each other. */
struct tensor {
    int32_t type, layout; /* enum tensor_type, enum tensor_layout */
    int32_t normalizes, zero;
    double mean[4], std[4];
};

/* The channel of the image from which a channel of the tensor is made: gray may be repeated. */
PIXEL int tensor_source(int channel, int image_channels)
{
    return image_channels == 1 ? 0 : channel;
}

extern const struct pass_type pass_tensor;
