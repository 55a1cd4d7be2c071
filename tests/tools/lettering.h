/*
 * lettering.h - writes ASCII into an RGB picture, in letters of 5 x 8 pixels.
 */
#ifndef GPUIMGD_TESTS_TOOLS_LETTERING_H
#define GPUIMGD_TESTS_TOOLS_LETTERING_H

#include "codecs/image.h"

/* Each letter's pixel is scale x scale of the picture's, of the gray value `ink`. What would go
 * beyond `width` pixels is cut off behind "..". */
void lettering_draw(struct image *image, uint32_t left, uint32_t top, uint32_t scale,
                    uint32_t width, uint8_t ink, const char *text);

#endif
