/*
 * codec_memory.h - how much device memory the AV1 encoder needs for an image.
 *
 * A plan reserves the memory of each job with this function, before the job runs. The CUDA engine
 * then passes the images of several jobs to one launch of encode.h.
 */
#pragma once

#include "gpu/plan/plan.h"

/* Sets the capacity and the memory of an encoder for an image. If the file is larger than this
 * capacity, which only noise is, the host encodes it. false: the host encodes the image in any
 * case, because it has alpha, or would need several tiles. */
bool avif_measure_encoder(struct plan_encoder *encoder, uint32_t width, uint32_t height,
                          uint32_t channels);
