/*
 * jxl.h - decodes and encodes JPEG XL with libjxl 0.7 or later, in the process gpuimgd-codec.
 *
 * libjxl has no threads here: it uses only those that a caller gives it.
 */
#pragma once

#include <jxl/decode.h>
#include <jxl/encode.h>
#include <jxl/version.h>

#include "codecs/confined/confined.h"

/* The colours that a function of libjxl is asked for: DATA or ORIGINAL. Before 0.9, these functions
 * have a pixel format as well, which they do not use. */
#if JPEGXL_NUMERIC_VERSION < JPEGXL_COMPUTE_NUMERIC_VERSION(0, 9, 0)
#define JXL_COLOURS(which) NULL, JXL_COLOR_PROFILE_TARGET_##which
#else
#define JXL_COLOURS(which) JXL_COLOR_PROFILE_TARGET_##which
#endif

confined_task_fn jxl_probe, jxl_decode, jxl_frames, jxl_encode, jxl_recompress;

/* What decoders of a probe and of a decode have in common. NULL: out of memory. */
JxlDecoder *jxl_create_decoder(int events, struct codec_reply *reply);

/* Call it at JXL_DEC_COLOR_ENCODING, before the profile is read: asks for pixels in sRGB if those
 * of the file have a curve that does not suit 8 bits, and libjxl can convert them. */
void jxl_prefer_srgb(JxlDecoder *decoder);

/* Divides the colours of the call's pixels by their alpha, if they are multiplied by it. Of colours
 * that libjxl has converted from linear light, it divides the light. libjxl 0.7 can divide only the
 * colours of some files. */
void jxl_unpremultiply(const JxlDecoder *decoder, const struct codec_call *call, uint8_t *pixels);

/* The channels of the image as gpuimgd decodes it: 1, 3 or 4. */
uint32_t jxl_channels(const JxlBasicInfo *info);
