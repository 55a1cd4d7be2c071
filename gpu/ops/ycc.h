/*
 * ycc.h - from the Y, Cb and Cr of a JPEG to its RGB, or to its Y alone.
 *
 * JFIF's R = Y + 1.402 Cr', G = Y - 0.34414 Cb' - 0.71414 Cr', B = Y + 1.772 Cb', with Cb' and Cr'
 * less 128, as libjpeg's jdcolor.c has it: coefficients in 1/65536, products (the two of G
 * together) rounded half up, results cut to 0..255. Since Y is a whole number of 1/65536ths, it
 * can be added before the shift: a row of a color_matrix, with the same bits.
 */
#ifndef GPUIMGD_GPU_OPS_YCC_H
#define GPUIMGD_GPU_OPS_YCC_H

#include "gpu/plan/pass.h"

/* Both append a pass that turns the chain's three channels, Y, Cb and Cr, into RGB, or into Y. */
void ycc_add_rgb(struct chain *chain);
void ycc_add_luma(struct chain *chain);

#endif
