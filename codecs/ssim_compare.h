/* ssim_compare.h - computes the similarity of two images (ssim.h) on the host. Any thread. */
#pragma once

#include "codecs/image.h"
#include "codecs/ssim.h"

/* The size of the scratch memory for an image of this width. */
size_t ssim_scratch_bytes(uint32_t width);
/* Returns the similarity of two images of the same size, which may differ in their channels, or -1
 * if the deadline (CLOCK_MONOTONIC; 0: none) has passed. An image without alpha is opaque, and one
 * of one channel is luma. scratch: ssim_scratch_bytes(width), aligned for uint32_t. */
int ssim_compare(const struct image *first, const struct image *second, void *scratch,
                 uint64_t deadline_ns);
