/*
 * resample_strips.h - resizes images on the CPU in strips of rows, if the processor has
 * instructions for it (resample_kernels.h).
 *
 * A strip of the source is read and transposed once for all results of a job that are resized from
 * it. The sums along the rows go to a ring of rows in the work space, which the sums down the
 * columns read while it is in the L2 cache. So the image between the two passes is not written.
 */
#pragma once

#include "gpu/ops/resample.h"

/* As pass_cpu_joint, for pass_resample_x and pass_resample_y. Returns false, and does nothing, if
 * the processor lacks the instructions. */
bool resample_strips(const struct pass_call *calls, uint32_t count);

/* Bytes of work space of pass_resample_x, for a source of this shape. */
size_t resample_strips_x_bytes(const struct resample *x, struct pass_shape from, uint32_t outputs);
/* Bytes of work space of pass_resample_y, and of a pass that leads it, in addition to its own. */
size_t resample_strips_y_bytes(uint32_t reach, uint32_t outputs);
/* Returns resample.ring of a pass along rows with a result of this width, before a pass down the
 * columns with this reach. 0: the ring would not stay in the L2 cache. */
uint32_t resample_strips_ring(uint32_t reach, uint32_t width, uint32_t channels);

/* For tests: the processor is treated as if it had no instructions after these. */
enum resample_level { RESAMPLE_PLAIN, RESAMPLE_AVX2, RESAMPLE_VNNI };
extern enum resample_level resample_level_max;
