/* steps.h - the steps that a plan takes without being asked. gpu/ops has them, by their kernels. */
#ifndef GPUIMGD_GPU_PLAN_STEPS_H
#define GPUIMGD_GPU_PLAN_STEPS_H

#include "gpu/plan/chain.h"

/* By an EXIF orientation: appends a pass, or nothing for 1 and for what EXIF does not define. */
void step_orient(struct chain *chain, int orientation);
/* Appends a plain copy of the chain's window, after which it is a whole image. */
void step_copy(struct chain *chain);
/* RGBA over the background, to RGB. */
void step_flatten(struct chain *chain);
/* Three channels that are Y, Cb and Cr, to RGB or to Y. */
void step_rgb(struct chain *chain);
void step_luma(struct chain *chain);

#endif
