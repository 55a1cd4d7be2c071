/*
 * resize.h - changes the size of an image, bit-identical to Pillow's Image.resize without
 * reducing_gap.
 *
 * The operation becomes one or two passes of resample.h. It computes their tables on the host, in
 * double. If a JPEG was decoded at M/8 of its size, the geometry is still that of the full image:
 * the chain knows both sizes (chain.h), and the filter's box has multiples of 1/8.
 */
#ifndef GPUIMGD_GPU_OPS_RESIZE_H
#define GPUIMGD_GPU_OPS_RESIZE_H

#include <stdint.h>

#include "gpu/plan/op.h"

/* Resizes the chain's image, which was decoded in full, to exactly this size with lanczos3. Appends
 * no pass if it has this size. */
enum status resize_exact(struct chain *chain, uint32_t width, uint32_t height) MUST_CHECK;

#endif
