/* choose_levels.h - the levels of a transform: quantised, lowered, and cut at the end. */
#pragma once

#include "gpu/avif/kernels/kernels.h"

/* Quantises coefficients, lowers levels, and drops the last ones, in raster order. Returns how many
 * are coded in the order of the scan. columns: receives the decoder's coefficients, column after
 * column; *rows: those from here on are 0 */
int avif_choose_levels(const struct avif_kernels *kernels, const struct avif_coefficients *from,
                       int size, const struct avif_quantiser *quantiser, int16_t *levels,
                       int16_t *columns, int *rows);
