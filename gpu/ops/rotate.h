/*
 * rotate.h - rotates an image by any angle, with bicubic interpolation.
 *
 * The computation is that of Pillow's Image.rotate with BICUBIC, step by step, in IEEE doubles. The
 * compilers must not fuse multiplications and additions (-ffp-contract=off, -fmad=false). The
 * centre of a result pixel is mapped by an affine matrix to a point of the source. If the point is
 * outside of the image, the pixel gets the fill colour. Otherwise the 4 x 4 pixels around the point
 * are interpolated by Keys' cubic with a = -1, first along the rows, then down the column; pixels
 * outside of the image repeat its edge. RGBA is multiplied by alpha before and divided after, as
 * Pillow's mode RGBa.
 */
#pragma once

#include "gpu/ops/resample.h"

struct rotate {
    double matrix[6]; /* source x = m[0] x + m[1] y + m[2], y = m[3] x + m[4] y + m[5] */
    uint8_t fill[4];
    uint32_t zero; /* no padding: pass.h */
};

/* Interpolates between four values: v2 at d = 0, v3 at d = 1. It is a macro so that the CPU loop
 * can use it with vectors of doubles. */
#define ROTATE_CUBIC(v1, v2, v3, v4, d)                                                            \
    ((v2) + (d) * (((v3) - (v1)) +                                                                 \
                   (d) * ((2.0 * ((v1) - (v2)) + (v3) - (v4)) +                                    \
                          (d) * ((v2) - (v1) - (v3) + (v4)))))

/* A point of the source: the upper left of the 4 x 4 pixels around it, which may be outside of the
 * image, and the distance of the point from the pixel to the right and below of that, 0 to 1. */
struct rotate_place {
    int x, y;
    double dx, dy;
};

PIXEL int rotate_floor(double value)
{
    int whole = (int)value;
    return value < whole ? whole - 1 : whole;
}

/* Finds the point of the source for the result pixel (x, y). false: it is outside of the width x
 * height image. */
PIXEL bool rotate_locate(const double *m, int x, int y, int width, int height,
                         struct rotate_place *place)
{
    double column = x + 0.5, row = y + 0.5;
    double source_x = m[0] * column + m[1] * row + m[2];
    double source_y = m[3] * column + m[4] * row + m[5];
    if (!(source_x >= 0.0 && source_x < width && source_y >= 0.0 && source_y < height))
        return false;
    source_x -= 0.5;
    source_y -= 0.5;
    int left = rotate_floor(source_x), top = rotate_floor(source_y);
    place->dx = source_x - left;
    place->dy = source_y - top;
    place->x = left - 1;
    place->y = top - 1;
    return true;
}

PIXEL uint32_t rotate_clamp(int value)
{
    return (uint32_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Repeats the edge of the image. */
PIXEL int rotate_inside(int index, int size)
{
    return index < 0 ? 0 : index < size ? index : size - 1;
}

/* Divides the colours of a premultiplied pixel by its alpha. */
PIXEL void rotate_divide(uint32_t *pixel)
{
    for (int c = 0; c < 3; c++)
        pixel[c] = resample_divide(pixel[c], pixel[3]);
}

/* Computes one pixel of the result. */
PIXEL void rotate_pixel(const uint8_t *pixels, size_t stride, int width, int height,
                        const struct rotate_place *place, uint8_t *to, int channels)
{
    double v[4][4]; /* row, channel */
    uint32_t result[4];
    for (int r = 0; r < 4; r++) {
        const uint8_t *row = pixels + (size_t)rotate_inside(place->y + r, height) * stride;
        uint32_t p[4][4]; /* column, channel */
        for (int k = 0; k < 4; k++) {
            const uint8_t *pixel = row + (size_t)rotate_inside(place->x + k, width) * channels;
            for (int c = 0; c < channels; c++)
                p[k][c] = pixel[c];
            for (int c = 0; c < 3 && channels == 4; c++)
                p[k][c] = resample_premultiply(p[k][c], p[k][3]);
        }
        for (int c = 0; c < channels; c++) {
            double p0 = p[0][c], p1 = p[1][c], p2 = p[2][c], p3 = p[3][c];
            v[r][c] = ROTATE_CUBIC(p0, p1, p2, p3, place->dx);
        }
    }
    for (int c = 0; c < channels; c++)
        result[c] =
            rotate_clamp((int)ROTATE_CUBIC(v[0][c], v[1][c], v[2][c], v[3][c], place->dy));
    if (channels == 4)
        rotate_divide(result);
    for (int c = 0; c < channels; c++)
        to[c] = (uint8_t)result[c];
}
