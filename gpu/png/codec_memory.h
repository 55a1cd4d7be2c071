/*
 * codec_memory.h - how much device memory the PNG codec needs for an image.
 *
 * A plan reserves the memory of each job with these functions, before the job runs. The CUDA engine
 * then passes the images of several jobs to one launch of decode.h or encode.h.
 */
#pragma once

#include "codecs/png/frame.h"
#include "gpu/plan/plan.h"

/* Returns the bytes of device memory for decoding a file, besides those for the file and for the
 * decoded image. 0: the device cannot decode the file. */
size_t png_decoder_bytes(const struct png_frame *frame, size_t file_bytes);

/* Sets the capacity and the memory of an encoder for an image. Every file fits the capacity. false:
 * the file may be too long for the device. */
bool png_measure_encoder(struct plan_encoder *encoder, uint32_t width, uint32_t height,
                         uint32_t channels);
