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

/* The smallest M of 1, 2, 4 with which a decoder that scales by M/8 gives at least twice what is
 * wanted in both sides; 8: none, or fast_shrink is off. width, height: as seen, oriented.
 * params: what op_resize.parse has filled. */
uint32_t resize_eighths(const void *params, uint32_t width, uint32_t height);

/* Appends what makes the chain's picture, decoded in full, one of exactly these sides, by lanczos3:
 * no pass where it has them. item: for messages. */
enum status resize_exact(const struct op_item *item, struct chain *chain, uint32_t width,
                         uint32_t height) MUST_CHECK;

#endif
