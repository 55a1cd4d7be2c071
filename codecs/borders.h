/*
 * borders.h - finds the borders of one colour around an image, which a job removes (trim).
 *
 * The colour of the borders is that of the rule, which is opaque, or that of the pixel that is top
 * left in the upright image. A pixel is border if all its channels, with alpha, differ by at most
 * the threshold from that colour; gray counts as R = G = B. A pixel whose alpha is at most the
 * threshold is always border. If the colour of the borders has such an alpha, all other pixels are
 * content.
 */
#pragma once

#include <stdbool.h>

#include "codecs/image.h"
#include "conf/status.h"
#include "conf/trim.h"

/* Finds the smallest part of the image with all content; the whole image if it has none.
 * orientation: EXIF 1..8, with which the image will be turned; the part is of the image as it is.
 * false: not found before the deadline (0: none). */
bool borders_find(const struct image *image, const struct trim_rule *rule, int orientation,
                  uint64_t deadline_ns, struct trim_part *part) MUST_CHECK;
/* Returns a part of an image with these sides as a part of the upright image. */
struct trim_part borders_turn(struct trim_part part, uint32_t width, uint32_t height,
                              int orientation);
