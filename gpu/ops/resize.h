/*
 * resize.h - another size, as Pillow's Image.resize without reducing_gap has it, to the bit.
 *
 * The operation turns into one or two passes of resample.h and makes their tables, in doubles, on
 * the host. Where a JPEG was decoded at M/8 of its size the geometry is still that of the whole
 * picture: the chain carries both (pass.h), and the filter's box has fractions of eighths.
 */
#ifndef GPUIMGD_GPU_OPS_RESIZE_H
#define GPUIMGD_GPU_OPS_RESIZE_H

#include <stdint.h>

#include "gpu/plan/op.h"

/* Appends what makes the chain's picture, decoded in full, one of exactly these sides, by lanczos3:
 * no pass where it has them. item: for messages. */
enum status resize_exact(const struct op_item *item, struct chain *chain, uint32_t width,
                         uint32_t height) MUST_CHECK;

#endif
