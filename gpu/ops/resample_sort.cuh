/*
 * resample_sort.cuh - sorts pixels by channel, for products with weights (resample_x.cu).
 */
#pragma once

#include "gpu/ops/resample.cuh"

/* The lane's pixels of a chunk: 8 pixels of rows lane / 4 and lane / 4 + 8. */
template <int C> using x_raw = uint32_t[2][2 * C];

/* Sorts the pixels by channel. Register 2 q + h has word q of row h. */
SIMT void x_sort_rgb(const uint32_t (&raw)[6], uint32_t (&planes)[3][4], int h)
{
    uint32_t a = __byte_perm(raw[0], raw[3], 0x6521), b = __byte_perm(raw[1], raw[4], 0x5410);
    planes[0][h] = __byte_perm(raw[0], raw[3], 0x7430);
    planes[1][h] = __byte_perm(a, b, 0x6240);
    planes[2][h] = __byte_perm(a, b, 0x7351);
    uint32_t c = __byte_perm(raw[1], raw[4], 0x7632), d = __byte_perm(raw[2], raw[5], 0x6521);
    planes[0][2 + h] = __byte_perm(c, d, 0x6240);
    planes[1][2 + h] = __byte_perm(c, d, 0x7351);
    planes[2][2 + h] = __byte_perm(raw[2], raw[5], 0x7430);
}

SIMT void x_sort_rgba(const uint32_t (&raw)[8], uint32_t (&planes)[4][4], int h, int premultiply)
{
    unrolled_for (int q = 0; q < 2; q++) {
        uint32_t pixels[4], channels[4];
        unrolled_for (int i = 0; i < 4; i++)
            pixels[i] = premultiply ? premultiply_pixel(raw[4 * q + i]) : raw[4 * q + i];
        transpose(pixels, channels);
        unrolled_for (int c = 0; c < 4; c++)
            planes[c][2 * q + h] = channels[c];
    }
}

template <int C> SIMT void x_sort(const x_raw<C> &raw, uint32_t (&planes)[C][4], int premultiply)
{
    unrolled_for (int h = 0; h < 2; h++) {
        if constexpr (C == 4) {
            x_sort_rgba(raw[h], planes, h, premultiply);
        } else if constexpr (C == 3) {
            x_sort_rgb(raw[h], planes, h);
        } else {
            planes[0][h] = raw[h][0];
            planes[0][2 + h] = raw[h][1];
        }
    }
}
