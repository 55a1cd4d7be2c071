/*
 * steps.h - the steps that a plan adds by itself: orientation, copy, alpha and colour conversion.
 *
 * They are implemented in gpu/ops, next to their kernels.
 */
#ifndef GPUIMGD_GPU_PLAN_STEPS_H
#define GPUIMGD_GPU_PLAN_STEPS_H

#include "gpu/plan/chain.h"

/* Appends a pass for the EXIF orientation. Appends nothing for 1 and for undefined values. */
void step_orient(struct chain *chain, int orientation);
/* Appends a copy of the chain's window, which makes it a whole image. */
void step_copy(struct chain *chain);
/* Flattens RGBA over the background, to RGB. */
void step_flatten(struct chain *chain);
/* Converts Y, Cb and Cr to RGB or to Y. */
void step_rgb(struct chain *chain);
void step_luma(struct chain *chain);

#endif
