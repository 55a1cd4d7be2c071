#include "codecs/webp/webp_blend.h"

#include <stdbool.h>
#include <string.h>

enum { RGB = 3, RGBA = 4, ALPHA = 3 };

/* Lays a pixel over another one, as BlendPixelNonPremult in libwebp. */
static void blend_pixel(const uint8_t *over, uint8_t *to, uint32_t channels)
{
    uint32_t over_alpha = over[ALPHA], to_alpha = channels == RGBA ? to[ALPHA] : UINT8_MAX;
    uint32_t rest = to_alpha * (256 - over_alpha) >> 8, alpha = over_alpha + rest;
    uint32_t scale = (1u << 24) / alpha;
    for (int i = 0; i < RGB; i++)
        to[i] = (uint8_t)((over[i] * over_alpha + to[i] * rest) * scale >> 24);
    if (channels == RGBA)
        to[ALPHA] = (uint8_t)alpha;
}

/* Whether the pixel at this address is in the rectangle of the same canvas. */
static bool is_in(const struct image *area, const uint8_t *at)
{
    if (!area->pixels || at < area->pixels)
        return false;
    size_t offset = (size_t)(at - area->pixels), row = offset / area->stride;
    return row < area->height && offset % area->stride < (size_t)area->width * area->channels;
}

void webp_blend(const struct image *over, const struct image *to, const struct image *cleared)
{
    for (uint32_t y = 0; y < over->height; y++) {
        const uint8_t *from = over->pixels + y * over->stride;
        uint8_t *at = to->pixels + y * to->stride;
        for (uint32_t x = 0; x < over->width; x++, from += RGBA, at += to->channels) {
            if (from[ALPHA] == UINT8_MAX || is_in(cleared, at))
                memcpy(at, from, to->channels);
            else if (from[ALPHA] > 0)
                blend_pixel(from, at, to->channels);
        }
    }
}
