#include "tests/tools/reference.h"

#include <stdlib.h>
#include <string.h>

struct raster reference_orient(const struct raster *in, int orientation)
{
    bool turned = orientation >= 5;
    uint32_t w = in->width, h = in->height;
    struct raster out = raster_make(turned ? h : w, turned ? w : h, in->channels);
    for (uint32_t y = 0; y < out.height; y++) {
        for (uint32_t x = 0; x < out.width; x++) {
            uint32_t sx = x, sy = y;
            switch (orientation) {
            case 2: sx = w - 1 - x; break;                       /* mirrored */
            case 3: sx = w - 1 - x; sy = h - 1 - y; break;       /* turned by 180 */
            case 4: sy = h - 1 - y; break;                       /* upside down */
            case 5: sx = y; sy = x; break;                       /* transposed */
            case 6: sx = y; sy = h - 1 - x; break;               /* show turned clockwise */
            case 7: sx = w - 1 - y; sy = h - 1 - x; break;       /* transversed */
            case 8: sx = w - 1 - y; sy = x; break;               /* show turned counterclockwise */
            default: break;
            }
            memcpy(raster_at(&out, x, y), raster_at(in, sx, sy), in->channels);
        }
    }
    return out;
}

struct raster reference_flatten(const struct raster *in, const uint8_t background[3])
{
    if (in->channels != 4)
        return raster_copy(in);
    struct raster out = raster_make(in->width, in->height, 3);
    for (uint32_t y = 0; y < in->height; y++) {
        for (uint32_t x = 0; x < in->width; x++) {
            const uint8_t *from = raster_at(in, x, y);
            uint8_t *to = raster_at(&out, x, y);
            for (int c = 0; c < 3; c++) {
                double value = (from[c] * from[3] + background[c] * (255 - from[3])) / 255.0;
                to[c] = (uint8_t)(value + 0.5);
            }
        }
    }
    return out;
}

struct raster reference_gray(const struct raster *in, const uint32_t weights[3],
                             const uint8_t background[3])
{
    static const uint32_t bt601[3] = {19595, 38470, 7471};
    const uint32_t *w = weights ? weights : bt601;
    if (in->channels == 1)
        return raster_copy(in);
    struct raster rgb = reference_flatten(in, background);
    struct raster out = raster_make(in->width, in->height, 1);
    for (uint32_t y = 0; y < in->height; y++) {
        for (uint32_t x = 0; x < in->width; x++) {
            const uint8_t *p = raster_at(&rgb, x, y);
            uint32_t sum = w[0] * p[0] + w[1] * p[1] + w[2] * p[2];
            *raster_at(&out, x, y) = (uint8_t)((sum + 32768) >> 16);
        }
    }
    raster_clear(&rgb);
    return out;
}

/* Where a coordinate outside comes from. */
static uint32_t fold(int64_t at, uint32_t side, enum reference_border border)
{
    if (at >= 0 && at < side)
        return (uint32_t)at;
    if (side == 1)
        return 0;
    if (border == REFERENCE_REFLECT101)
        return at < 0 ? (uint32_t)-at : (uint32_t)(2 * (int64_t)side - 2 - at);
    return at < 0 ? 0 : side - 1;
}

static uint8_t edge(const struct raster *gray, uint32_t x, uint32_t y,
                    enum reference_magnitude magnitude, enum reference_border border)
{
    static const int kx[3][3] = {{1, 0, -1}, {2, 0, -2}, {1, 0, -1}};
    static const int ky[3][3] = {{1, 2, 1}, {0, 0, 0}, {-1, -2, -1}};
    long gx = 0, gy = 0;
    if (border == REFERENCE_ZERO &&
        (x == 0 || y == 0 || x == gray->width - 1 || y == gray->height - 1))
        return 0;
    for (int j = -1; j <= 1; j++) {
        for (int i = -1; i <= 1; i++) {
            uint8_t v = *raster_at(gray, fold((int64_t)x + i, gray->width, border),
                                   fold((int64_t)y + j, gray->height, border));
            gx += kx[j + 1][i + 1] * v;
            gy += ky[j + 1][i + 1] * v;
        }
    }
    long size = labs(gx) + labs(gy);
    if (magnitude == REFERENCE_HALF)
        size /= 2;
    if (magnitude == REFERENCE_L2) {
        long square = gx * gx + gy * gy;
        for (size = 0; (size + 1) * (size + 1) <= square && size < 255; size++)
            continue;
    }
    return (uint8_t)(size > 255 ? 255 : size);
}

struct raster reference_sobel(const struct raster *gray, enum reference_magnitude magnitude,
                              enum reference_border border)
{
    struct raster out = raster_make(gray->width, gray->height, 1);
    for (uint32_t y = 0; y < gray->height; y++)
        for (uint32_t x = 0; x < gray->width; x++)
            *raster_at(&out, x, y) = edge(gray, x, y, magnitude, border);
    return out;
}
