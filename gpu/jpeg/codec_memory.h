/*
 * codec_memory.h - how much device memory the JPEG codec needs for an image, and how it divides it.
 *
 * A plan reserves the memory of each job with these functions, before the job runs. The CUDA engine
 * then passes the images of several jobs to one launch of decode.h, progressive.h or encode.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/image.h"
#include "codecs/jpeg/frame.h"
#include "gpu/jpeg/decode.h"
#include "gpu/jpeg/progressive.h"
#include "gpu/plan/plan.h"

/* Returns the bytes of device memory for decoding a file, besides those for the file and for the
 * decoded image. 0: the device cannot decode the file. eighths: as in struct jpeg_decode_image. */
size_t jpeg_decoder_bytes(const struct jpeg_frame *frame, size_t file_bytes, enum decode_as as,
                          uint32_t eighths);

/* Sets the capacity and the memory of an encoder for an image of 1 or 3 channels. Except in noise,
 * a coefficient takes less than one byte on average, or less than two at high qualities. If the
 * file is larger than this capacity, the host encodes it. Returns true. */
bool jpeg_measure_encoder(struct plan_encoder *encoder, uint32_t width, uint32_t height,
                          uint32_t channels);

/* A progressive file is decoded in two stages: progressive.h turns its scans into coefficients, and
 * jpeg_decode_launch turns the coefficients into pixels. The memory of the first stage is the end
 * of the decoder's memory. Returns where it begins there. */
size_t jpeg_scans_at(const struct jpeg_decode_image *image);
/* Returns the first stage. scans_at: of jpeg_scans_at. Its verdict is in device memory. */
struct jpeg_progressive_image jpeg_scans_of(const struct jpeg_decode_image *image, size_t scans_at);
