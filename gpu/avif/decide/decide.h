/* decide.h - stages P, A and B, which encode.c runs. */
#pragma once

#include "gpu/avif/frame/encoder.h"

/* Makes the proxy of whole blocks of 8 x 8 in a rectangle. */
void avif_make_proxy(const struct avif_encoder *encoder, int left, int top, int right, int bottom);
/* Decides on the superblock at (x, y). */
void avif_analyse(struct avif_encoder *encoder, const struct avif_bounds *tile, int x, int y);
/* Reconstructs a block that is not split further. */
void avif_code_block(struct avif_encoder *encoder, const struct avif_bounds *tile, int x, int y,
                     int size);
