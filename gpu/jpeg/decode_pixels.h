/* decode_pixels.h - converts Y, Cb and Cr to RGB like libjpeg's jdcolor.c, and stores pixels. */
#pragma once

#include "gpu/jpeg/decode_device.h"

/* FIX(x) of jdcolor.c: x * 2^16, rounded. */
#define CR_TO_R 91881
#define CB_TO_B 116130
#define CR_TO_G 46802
#define CB_TO_G 22554

#define SAMPLE_CENTRE 128

/* Samples of 16 bits in the upper halves of words, before they are limited to 0 to 255. The lower
 * halves are the fractions that jdcolor.c shifts away. */
struct colours {
    uint32_t of[3 * DECODE_COLOUR_PIXELS];
};

/* Sets the colours to R, G and B, or to Y, Cb and Cr. cb, cr: minus SAMPLE_CENTRE. */
DEVICE void convert(words2 luma, const int32_t *cb, const int32_t *cr, bool rgb, struct colours *to)
{
    UNROLL
    for (uint32_t i = 0; i < DECODE_COLOUR_PIXELS; i++) {
        /* 65536 Y + 32768 */
        uint32_t y = select_bytes(i < 4 ? luma.x : luma.y, 0x8000, 0x6054 | (i & 3) << 8);
        uint32_t u = (uint32_t)cb[i], v = (uint32_t)cr[i];
        to->of[3 * i] = rgb ? y + CR_TO_R * v : y;
        to->of[3 * i + 1] = rgb ? y - CB_TO_G * u - CR_TO_G * v : (u + SAMPLE_CENTRE) << 16;
        to->of[3 * i + 2] = rgb ? y + CB_TO_B * u : (v + SAMPLE_CENTRE) << 16;
    }
}

/* Returns four bytes from the colour `first` on. */
DEVICE uint32_t pack_colours(const struct colours *colours, int first)
{
    const uint32_t *of = colours->of + first;
    uint32_t low = add_clip_halves(select_bytes(of[0], of[1], 0x7632), 0);
    uint32_t high = add_clip_halves(select_bytes(of[2], of[3], 0x7632), 0);
    return select_bytes(low, high, 0x6420);
}

/* Stores the pixels, but at most `left`. `to` is aligned to 8. */
SIMT void store_pixels(const struct colours *colours, uint8_t *to, uint32_t left)
{
    enum { words_count = 3 * DECODE_COLOUR_PIXELS / 4 };
    uint32_t words[words_count];
    UNROLL
    for (int i = 0; i < words_count; i++)
        words[i] = pack_colours(colours, 4 * i);
    if (left >= DECODE_COLOUR_PIXELS) {
        UNROLL
        for (int i = 0; i < words_count; i += 2) {
            words2 two = {words[i], words[i + 1]};
            *(words2 *)(to + 4 * i) = two;
        }
        return;
    }
    UNROLL
    for (int i = 0; i < 4 * words_count; i++)
        if (i < 3 * (int)left)
            to[i] = (uint8_t)(words[i / 4] >> 8 * (i % 4));
}
