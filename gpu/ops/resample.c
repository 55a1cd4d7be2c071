/* resample.c - weighted means along one axis, and the nearest pixel, on the CPU. */
#include "gpu/ops/resample.h"

#include <string.h>

/* Bytes of a row whose sums stay in the first-level cache. */
#define SUMS 1024

#define HALF (1 << (RESAMPLE_BITS - 1))

/* ---- along a row ---- */

/* A row as one plane of 32-bit numbers a channel: what the sums are made of. */
PIXEL void split_run(const uint8_t *restrict from, int32_t *restrict planes, size_t pitch,
                     size_t width, uint32_t channels)
{
    for (uint32_t c = 0; c < channels; c++)
        for (size_t x = 0; x < width; x++)
            planes[c * pitch + x] = from[x * channels + c];
}

VECTOR_CLONES
static void split_row(const uint8_t *from, int32_t *planes, size_t pitch, size_t width,
                      uint32_t channels)
{
    if (channels == 1)
        split_run(from, planes, pitch, width, 1);
    else if (channels == 3)
        split_run(from, planes, pitch, width, 3);
    else
        split_run(from, planes, pitch, width, 4);
}

VECTOR_CLONES
static void premultiply_planes(int32_t *restrict planes, size_t pitch, size_t width)
{
    const int32_t *restrict alpha = planes + 3 * pitch;
    for (int c = 0; c < 3; c++)
        for (size_t x = 0; x < width; x++)
            planes[c * pitch + x] = (int32_t)resample_premultiply(
                (uint32_t)planes[c * pitch + x], (uint32_t)alpha[x]);
}

/* The cases of sum_row are the same code with a number of channels that the compiler knows. */
PIXEL void sum_run(const int32_t *restrict planes, size_t pitch, const int32_t *restrict first,
                   const int32_t *restrict weights, size_t taps, uint8_t *restrict to,
                   size_t width, int channels)
{
    taps -= taps % RESAMPLE_TAPS_STEP;
    for (size_t x = 0; x < width; x++) {
        const int32_t *restrict from = planes + first[x];
        const int32_t *restrict weight = weights + x * taps;
        int32_t a = HALF, b = HALF, c = HALF, d = HALF;
        for (size_t t = 0; t < taps; t++) {
            a += from[t] * weight[t];
            if (channels >= 3) {
                b += from[pitch + t] * weight[t];
                c += from[2 * pitch + t] * weight[t];
            }
            if (channels == 4)
                d += from[3 * pitch + t] * weight[t];
        }
        to[x * (size_t)channels] = (uint8_t)resample_clip(a);
        if (channels >= 3) {
            to[x * (size_t)channels + 1] = (uint8_t)resample_clip(b);
            to[x * (size_t)channels + 2] = (uint8_t)resample_clip(c);
        }
        if (channels == 4)
            to[x * 4 + 3] = (uint8_t)resample_clip(d);
    }
}

VECTOR_CLONES
static void sum_row(const int32_t *planes, size_t pitch, const int32_t *first,
                    const int32_t *weights, size_t taps, uint8_t *to, size_t width,
                    uint32_t channels)
{
    if (channels == 1)
        sum_run(planes, pitch, first, weights, taps, to, width, 1);
    else if (channels == 3)
        sum_run(planes, pitch, first, weights, taps, to, width, 3);
    else
        sum_run(planes, pitch, first, weights, taps, to, width, 4);
}

VECTOR_CLONES
static void divide_row(uint8_t *pixels, size_t width)
{
    for (size_t x = 0; x < width; x++) {
        uint32_t alpha = pixels[4 * x + 3];
        for (size_t c = 0; c < 3; c++)
            pixels[4 * x + c] = (uint8_t)resample_divide(pixels[4 * x + c], alpha);
    }
}

static void resample_x_cpu(const struct pass *pass, const struct image *from,
                           const struct image *to, uint8_t *work)
{
    const struct resample *resample = (const struct resample *)pass->params;
    const int32_t *first = (const int32_t *)pass->constants, *weights = first + to->width;
    int32_t *planes = (int32_t *)work;
    size_t pitch = (size_t)from->width + resample->taps; /* weights of 0 may reach beyond the row */
    memset(planes, 0, pitch * from->channels * sizeof(*planes));
    for (uint32_t y = 0; y < to->height && !pass_is_late_at(pass, y); y++) {
        const uint8_t *row = from->pixels + (size_t)(resample->skip + y) * from->stride;
        uint8_t *result = to->pixels + (size_t)y * to->stride;
        split_row(row, planes, pitch, from->width, from->channels);
        if (resample->premultiply)
            premultiply_planes(planes, pitch, from->width);
        sum_row(planes, pitch, first, weights, resample->taps, result, to->width, to->channels);
        if (resample->divide)
            divide_row(result, to->width);
    }
}

const struct pass_type pass_resample_x = {"resample x", resample_x_cpu,
                                          PASS_CUDA(resample_x_cuda)};

/* ---- down the columns ---- */

VECTOR_CLONES
static void add_four(int32_t *restrict sums, const uint8_t *restrict a, const uint8_t *restrict b,
                     const uint8_t *restrict c, const uint8_t *restrict d, const int32_t *weight,
                     size_t count)
{
    int32_t wa = weight[0], wb = weight[1], wc = weight[2], wd = weight[3];
    for (size_t i = 0; i < count; i++)
        sums[i] += a[i] * wa + b[i] * wb + c[i] * wc + d[i] * wd;
}

/* The same on RGBA that has not been multiplied by alpha yet. */
VECTOR_CLONES
static void add_premultiplied(int32_t *restrict sums, const uint8_t *restrict row, int32_t weight,
                              size_t count)
{
    for (size_t i = 0; i < count; i += 4) {
        uint32_t alpha = row[i + 3];
        for (size_t c = 0; c < 3; c++)
            sums[i + c] += (int32_t)resample_premultiply(row[i + c], alpha) * weight;
        sums[i + 3] += (int32_t)alpha * weight;
    }
}

VECTOR_CLONES
static void clip_row(const int32_t *restrict sums, uint8_t *restrict to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (uint8_t)resample_clip(sums[i]);
}

/* `count` bytes of an output row from byte `at` on. Rows below the last have weights of 0. */
static void sum_columns(const struct image *from, const struct resample *resample, size_t first,
                        const int32_t *weights, size_t at, size_t count, uint8_t *to)
{
    int32_t sums[SUMS];
    for (size_t i = 0; i < count; i++)
        sums[i] = HALF;
    for (size_t t = 0; t < resample->taps; t += 4) {
        const uint8_t *rows[4];
        for (size_t k = 0; k < 4; k++) {
            size_t y = first + t + k < from->height ? first + t + k : from->height - 1;
            rows[k] = from->pixels + y * from->stride + at;
        }
        if (!resample->premultiply)
            add_four(sums, rows[0], rows[1], rows[2], rows[3], weights + t, count);
        for (size_t k = 0; k < 4 && resample->premultiply; k++)
            add_premultiplied(sums, rows[k], weights[t + k], count);
    }
    clip_row(sums, to + at, count);
}

static void resample_y_cpu(const struct pass *pass, const struct image *from,
                           const struct image *to, uint8_t *work)
{
    const struct resample *resample = (const struct resample *)pass->params;
    const int32_t *first = (const int32_t *)pass->constants, *weights = first + to->height;
    size_t row_bytes = (size_t)to->width * to->channels;
    (void)work;
    /* A row of few is made of nearly all the image. */
    for (uint32_t y = 0; y < to->height && !pass_is_late(pass); y++) {
        uint8_t *row = to->pixels + (size_t)y * to->stride;
        for (size_t at = 0; at < row_bytes; at += SUMS)
            sum_columns(from, resample, (size_t)first[y], weights + (size_t)y * resample->taps, at,
                        row_bytes - at < SUMS ? row_bytes - at : SUMS, row);
        if (resample->divide)
            divide_row(row, to->width);
    }
}

const struct pass_type pass_resample_y = {"resample y", resample_y_cpu,
                                          PASS_CUDA(resample_y_cuda)};

/* ---- the nearest pixel ---- */

static void pick_cpu(const struct pass *pass, const struct image *from, const struct image *to,
                     uint8_t *work)
{
    const int32_t *columns = (const int32_t *)pass->constants, *rows = columns + to->width;
    size_t channels = from->channels;
    (void)work;
    for (uint32_t y = 0; y < to->height; y++) {
        const uint8_t *row = from->pixels + (size_t)rows[y] * from->stride;
        uint8_t *result = to->pixels + (size_t)y * to->stride;
        for (uint32_t x = 0; x < to->width; x++)
            for (size_t c = 0; c < channels; c++)
                result[x * channels + c] = row[(size_t)columns[x] * channels + c];
    }
}

const struct pass_type pass_pick = {"pick", pick_cpu, PASS_CUDA(pick_cuda)};
