/* text_style.h - how a text is drawn: the parameters of the operation text that make its pixels. */
#pragma once

#include <stdint.h>

#include "conf/limits.h"

/* The values of the parameter `align`, in the order of its words. */
enum text_align { TEXT_LEFT, TEXT_CENTER, TEXT_RIGHT };

/* Equal styles have equal bytes, with all padding and the rest of `font` 0: the cache of overlays
 * compares them, and the daemon sends them to gpuimgd-codec. */
struct text_style {
    char font[TEXT_FONT_BYTES_MAX + 1]; /* families and style words, as Pango describes a font */
    uint8_t rgba[4];
    uint32_t size;    /* of an em, in pixels */
    uint32_t width;   /* longer lines are wrapped, in pixels; 0: they are not */
    uint32_t align;   /* enum text_align */
    uint32_t spacing; /* between two lines, in pixels */
};
