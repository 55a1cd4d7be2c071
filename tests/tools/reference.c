#include "tests/tools/reference.h"

#include <assert.h>
#include <math.h>
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

/* The product with FIX(x) = x * 2^16 + 1/2, as it stands in one of the tables. */
static int64_t fixed(double x, int value)
{
    return (int64_t)(x * 65536 + 0.5) * (value - 128);
}

static uint8_t limited(double value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

void reference_ycc_pixel(const uint8_t ycc[3], uint8_t rgb[3])
{
    int y = ycc[0], cb = ycc[1], cr = ycc[2];
    double cr_r = floor((double)(fixed(1.40200, cr) + 32768) / 65536);
    double cb_b = floor((double)(fixed(1.77200, cb) + 32768) / 65536);
    double cr_g = (double)-fixed(0.71414, cr), cb_g = (double)(-fixed(0.34414, cb) + 32768);
    rgb[0] = limited(y + cr_r);
    rgb[1] = limited(y + floor((cb_g + cr_g) / 65536));
    rgb[2] = limited(y + cb_b);
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

struct gradient {
    long x, y;
};

static struct gradient gradient(const struct raster *gray, int64_t x, int64_t y,
                                enum reference_border border)
{
    static const int kx[3][3] = {{1, 0, -1}, {2, 0, -2}, {1, 0, -1}};
    static const int ky[3][3] = {{1, 2, 1}, {0, 0, 0}, {-1, -2, -1}};
    struct gradient sum = {0, 0};
    for (int j = -1; j <= 1; j++) {
        for (int i = -1; i <= 1; i++) {
            uint8_t v = *raster_at(gray, fold(x + i, gray->width, border),
                                   fold(y + j, gray->height, border));
            sum.x += kx[j + 1][i + 1] * v;
            sum.y += ky[j + 1][i + 1] * v;
        }
    }
    return sum;
}

static uint8_t edge(const struct raster *gray, uint32_t x, uint32_t y,
                    enum reference_magnitude magnitude, enum reference_border border)
{
    if (border == REFERENCE_ZERO &&
        (x == 0 || y == 0 || x == gray->width - 1 || y == gray->height - 1))
        return 0;
    struct gradient g = gradient(gray, x, y, border);
    long size = labs(g.x) + labs(g.y);
    if (magnitude == REFERENCE_HALF)
        size /= 2;
    if (magnitude == REFERENCE_L2) {
        long square = g.x * g.x + g.y * g.y;
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

static long canny_size(const struct raster *gray, int64_t x, int64_t y)
{
    if (x < 0 || y < 0 || x >= gray->width || y >= gray->height)
        return 0;
    struct gradient g = gradient(gray, x, y, REFERENCE_REPLICATE);
    return labs(g.x) + labs(g.y);
}

/* Whether the gradient is longer than before and behind it on the line that it points along, one
 * of four. Ties: in a row and in a column the first of two equals counts, on a diagonal neither. */
static bool canny_peak(const struct raster *gray, int64_t x, int64_t y)
{
    struct gradient g = gradient(gray, x, y, REFERENCE_REPLICATE);
    long size = labs(g.x) + labs(g.y), wide = labs(g.x), high = labs(g.y);
    double tan_22 = 13573 / 32768.0, tan_67 = 2 + tan_22; /* and products are exact */
    if ((double)high < tan_22 * (double)wide)
        return size > canny_size(gray, x - 1, y) && size >= canny_size(gray, x + 1, y);
    if ((double)high > tan_67 * (double)wide)
        return size > canny_size(gray, x, y - 1) && size >= canny_size(gray, x, y + 1);
    int slope = (g.x < 0) == (g.y < 0) ? 1 : -1;
    return size > canny_size(gray, x - slope, y - 1) && size > canny_size(gray, x + slope, y + 1);
}

/* 1: above the lower threshold and a peak; 2: and above the upper one. */
static struct raster canny_candidates(const struct raster *gray, int low, int high)
{
    struct raster out = raster_make(gray->width, gray->height, 1);
    for (uint32_t y = 0; y < gray->height; y++) {
        for (uint32_t x = 0; x < gray->width; x++) {
            long size = canny_size(gray, x, y);
            bool is_peak = size > low && canny_peak(gray, x, y);
            *raster_at(&out, x, y) = !is_peak ? 0 : size > high ? 2 : 1;
        }
    }
    return out;
}

struct raster reference_canny(const struct raster *gray, int low, int high)
{
    struct raster candidates = canny_candidates(gray, low, high);
    struct raster out = raster_make(gray->width, gray->height, 1);
    size_t pixels = (size_t)gray->width * gray->height, head = 0, tail = 0;
    size_t *queue = malloc(pixels * sizeof(*queue));
    if (!queue)
        abort();
    memset(out.pixels, 0, pixels);
    for (size_t i = 0; i < pixels; i++) {
        if (candidates.pixels[i] != 2)
            continue;
        out.pixels[i] = 255;
        queue[tail++] = i;
    }
    while (head < tail) {
        size_t at = queue[head++];
        int64_t x = (int64_t)(at % gray->width), y = (int64_t)(at / gray->width);
        for (int64_t v = y - 1; v <= y + 1; v++) {
            for (int64_t u = x - 1; u <= x + 1; u++) {
                if (u < 0 || v < 0 || u >= gray->width || v >= gray->height)
                    continue;
                size_t next = (size_t)v * gray->width + (size_t)u;
                if (candidates.pixels[next] == 0 || out.pixels[next] == 255)
                    continue;
                out.pixels[next] = 255;
                queue[tail++] = next;
            }
        }
    }
    free(queue);
    raster_clear(&candidates);
    return out;
}

static int compare_numbers(const void *a, const void *b)
{
    long double x = *(const long double *)a, y = *(const long double *)b;
    return (x > y) - (x < y);
}

uint64_t reference_phash(const struct raster *gray)
{
    const long double pi = acosl(-1.0L);
    long double wave[8][32], low[64], sorted[64];
    uint64_t hash = 0;
    assert(gray->width == 32 && gray->height == 32 && gray->channels == 1);
    for (int k = 0; k < 8; k++)
        for (int n = 0; n < 32; n++)
            wave[k][n] = 2 * cosl(pi * k * (2 * n + 1) / 64);
    for (int i = 0; i < 64; i++) {
        low[i] = 0;
        for (uint32_t y = 0; y < 32; y++)
            for (uint32_t x = 0; x < 32; x++)
                low[i] += wave[i / 8][y] * wave[i % 8][x] * *raster_at(gray, x, y);
    }
    memcpy(sorted, low, sizeof sorted);
    qsort(sorted, 64, sizeof *sorted, compare_numbers);
    long double median = (sorted[31] + sorted[32]) / 2;
    for (int i = 0; i < 64; i++)
        hash = hash << 1 | (low[i] > median + 1e-9L);
    return hash;
}
