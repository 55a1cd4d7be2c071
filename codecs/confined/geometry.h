/* geometry.h - how images are shown: the boxes that AVIF and HEIC share. */
#pragma once

#include <stdint.h>

/* A part of an image, in pixels. */
struct confined_rect {
    uint32_t x, y, width, height;
};

/* The box "clap", clean aperture: the part of an image to show (ISO/IEC 14496-12, 12.1.4). Pairs of
 * signed numerators and divisors, as the box stores them. */
struct confined_aperture {
    uint32_t width[2], height[2]; /* sides */
    uint32_t x[2], y[2];          /* the centre of the aperture, less that of the image */
};

/* If a side or the position is not a whole number, or the aperture is not inside the image, the box
 * is ignored, and the whole image returned, as by libavif's tools. aperture: NULL, there is no
 * box. */
struct confined_rect confined_crop(uint32_t width, uint32_t height,
                                   const struct confined_aperture *aperture);

enum confined_mirror { CONFINED_PLAIN, CONFINED_TOP_BOTTOM, CONFINED_LEFT_RIGHT };

/* The orientation of EXIF for quarter turns anticlockwise (the box "irot") and then a mirror
 * ("imir"). An orientation in the file's EXIF has no meaning: ISO/IEC 23000-22, 7.3.10.1. */
uint32_t confined_orientation(unsigned turns, enum confined_mirror mirror);
