/* palettes.h - chooses the colours of blocks that have few of them, as on screens. */
#pragma once

#include "gpu/avif/predict/palette.h"

/* Whether many blocks of the source have few, different colours of luma. */
bool avif_has_palettes(const struct avif_encoder *encoder);

/* Finds a palette and indices for the luma or chroma of a block of size 3 to 6 at (x, y), in luma
 * samples. Returns what it costs without a residual: squared errors of coefficients and bits; or
 * INT64_MAX if the block has one colour or too many. *bits: receives the bits, in sixteenths */
int64_t avif_find_palette(const struct avif_encoder *encoder, int which, int x, int y, int size,
                          struct avif_palette *palette, uint8_t *map, int64_t *bits);

/* Fills the prediction of a plane. size: of the block in the plane */
void avif_predict_palette(const uint8_t *colours, const uint8_t *map, int size, uint8_t *to);
