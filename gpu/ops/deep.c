/* deep.c - the passes of deep.h on the CPU. */
#include "gpu/ops/deep.h"

#include <string.h>

#include "gpu/ops/orient.h"
#include "gpu/ops/pad.h"
#include "gpu/ops/resample.h"

/* Row y of an image, as samples. */
static uint16_t *row_of(const struct image *image, size_t y)
{
    return (uint16_t *)(void *)(image->pixels + y * image->stride);
}

/* ---- depth ---- */

struct convert {
    uint8_t widens;
};

VECTOR_CLONES
static void widen_row(const uint8_t *restrict from, uint16_t *restrict to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (uint16_t)deep_widen(from[i]);
}

VECTOR_CLONES
static void narrow_row(const uint16_t *restrict from, uint8_t *restrict to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (uint8_t)deep_narrow(from[i]);
}

PASS_LOOP(deep_convert_cpu)
{
    const struct convert *convert = (const struct convert *)pass->params;
    size_t count = (size_t)to->width * image_samples(to->channels);
    for (uint32_t y = 0; y < to->height && !pass_is_late_at(pass, y); y++)
        if (convert->widens)
            widen_row(from->pixels + y * from->stride, row_of(to, y), count);
        else
            narrow_row(row_of(from, y), to->pixels + y * to->stride, count);
}

pass_cuda deep_convert_cuda;

static const struct pass_type pass_widen = {"widen", deep_convert_cpu,
                                            PASS_CUDA(deep_convert_cuda)};
static const struct pass_type pass_narrow = {"narrow", deep_convert_cpu,
                                             PASS_CUDA(deep_convert_cuda)};

static void step_convert(struct chain *chain, const struct pass_type *type, bool widens)
{
    struct pass_shape to = chain->shape;
    to.channels = widens ? to.channels * 2 : to.channels / 2;
    chain_append(chain, type, to, &(struct convert){widens}, sizeof(struct convert));
}

void step_widen(struct chain *chain)
{
    step_convert(chain, &pass_widen, true);
}

void step_narrow(struct chain *chain)
{
    step_convert(chain, &pass_narrow, false);
}

/* ---- moving pixels ---- */

/* Pixels are moved in squares with this side, so that the rows of a square stay in the L1 cache. */
#define SIDE 32

PIXEL void orient_square(const struct orient *orient, const struct image *from,
                         const struct image *to, uint32_t left, uint32_t top, size_t bytes)
{
    uint32_t right = to->width - left < SIDE ? to->width : left + SIDE;
    uint32_t bottom = to->height - top < SIDE ? to->height : top + SIDE;
    for (uint32_t y = top; y < bottom; y++)
        for (uint32_t x = left; x < right; x++) {
            uint32_t column = orient->swap ? y : x, row = orient->swap ? x : y;
            column = orient->flip_x ? from->width - 1 - column : column;
            row = orient->flip_y ? from->height - 1 - row : row;
            memcpy(to->pixels + y * to->stride + x * bytes,
                   from->pixels + row * from->stride + column * bytes, bytes);
        }
}

PASS_LOOP(deep_orient_cpu)
{
    const struct orient *orient = (const struct orient *)pass->params;
    for (uint32_t y = 0; y < to->height && !pass_is_late(pass); y += SIDE)
        for (uint32_t x = 0; x < to->width; x += SIDE)
            if (to->channels == 2)
                orient_square(orient, from, to, x, y, 2);
            else if (to->channels == 6)
                orient_square(orient, from, to, x, y, 6);
            else
                orient_square(orient, from, to, x, y, 8);
}

pass_cuda deep_orient_cuda;

const struct pass_type pass_deep_orient = {"orient 16", deep_orient_cpu,
                                           PASS_CUDA(deep_orient_cuda)};

/* Gray becomes RGB, and both become RGBA, if the result has more samples. */
PASS_LOOP(deep_pad_cpu)
{
    const struct pad *pad = (const struct pad *)pass->params;
    uint32_t own = image_samples(from->channels), samples = image_samples(to->channels);
    for (uint32_t y = 0; y < to->height && !pass_is_late_at(pass, y); y++)
        for (uint32_t x = 0; x < to->width; x++) {
            uint16_t *pixel = row_of(to, y) + (size_t)x * samples;
            uint32_t column = x - pad->left, row = y - pad->top; /* before: wraps around */
            bool inside = column < from->width && row < from->height;
            const uint16_t *source = inside ? row_of(from, row) + (size_t)column * own : NULL;
            for (uint32_t c = 0; c < samples; c++)
                pixel[c] = !inside             ? (uint16_t)deep_widen(pad->fill[c])
                           : c == 3 && own < 4 ? (uint16_t)DEEP_MAX
                                               : source[own == 1 ? 0 : c];
        }
}

pass_cuda deep_pad_cuda;

const struct pass_type pass_deep_pad = {"pad 16", deep_pad_cpu, PASS_CUDA(deep_pad_cuda)};

/* ---- resize ---- */

PASS_LOOP(deep_pick_cpu)
{
    const int32_t *columns = (const int32_t *)pass->constants, *rows = columns + to->width;
    size_t samples = image_samples(from->channels);
    for (uint32_t y = 0; y < to->height && !pass_is_late_at(pass, y); y++)
        for (uint32_t x = 0; x < to->width; x++)
            memcpy(row_of(to, y) + x * samples,
                   row_of(from, (size_t)rows[y]) + (size_t)columns[x] * samples,
                   samples * sizeof(uint16_t));
}

pass_cuda deep_pick_cuda;

const struct pass_type pass_deep_pick = {"pick 16", deep_pick_cpu, PASS_CUDA(deep_pick_cuda)};

/* A row of RGBA that is multiplied by alpha. */
size_t deep_work_bytes(struct pass_shape from)
{
    return from.channels == 8 ? (size_t)from.width * from.channels : 0;
}

VECTOR_CLONES
static void premultiply_row(const uint16_t *restrict from, uint16_t *restrict to, size_t width)
{
    for (size_t x = 0; x < width; x++, from += 4, to += 4) {
        for (size_t c = 0; c < 3; c++)
            to[c] = (uint16_t)deep_premultiply(from[c], from[3]);
        to[3] = from[3];
    }
}

static void divide_row(uint16_t *pixels, size_t width)
{
    for (size_t x = 0; x < width; x++, pixels += 4)
        for (size_t c = 0; c < 3; c++)
            pixels[c] = (uint16_t)deep_divide(pixels[c], pixels[3]);
}

/* Row y of the source, multiplied by alpha if this is the first pass. */
static const uint16_t *source_row(const struct resample *resample, const struct image *from,
                                  size_t y, uint8_t *work)
{
    uint16_t *row = row_of(from, y), *made = (uint16_t *)(void *)work;
    if (!resample->premultiply)
        return row;
    premultiply_row(row, made, from->width);
    return made;
}

/* The weights that belong to one of `length` pixels; those after the last pixel are padding. */
static uint32_t taps_of(const struct resample *resample, int32_t first, uint32_t length)
{
    uint32_t left = length - (uint32_t)first;
    return resample->taps < left ? resample->taps : left;
}

PIXEL void sum_run(const uint16_t *row, const int32_t *weights, uint32_t taps, uint16_t *to,
                   size_t samples)
{
    int64_t sums[4] = {0};
    for (uint32_t t = 0; t < taps; t++, row += samples)
        for (size_t c = 0; c < samples; c++)
            sums[c] += (int64_t)weights[t] * row[c];
    for (size_t c = 0; c < samples; c++)
        to[c] = deep_clip(sums[c]);
}

PASS_LOOP(deep_x_cpu)
{
    const struct resample *resample = (const struct resample *)pass->params;
    const int32_t *first = (const int32_t *)pass->constants, *weights = first + to->width;
    size_t samples = image_samples(to->channels);
    for (uint32_t y = 0; y < to->height && !pass_is_late(pass); y++) {
        const uint16_t *row = source_row(resample, from, y + resample->skip, work);
        uint16_t *result = row_of(to, y);
        for (size_t x = 0; x < to->width; x++)
            BY_CHANNELS(samples, sum_run, row + (size_t)first[x] * samples,
                        weights + x * resample->taps, taps_of(resample, first[x], from->width),
                        result + x * samples);
        if (resample->divide)
            divide_row(result, to->width);
    }
}

pass_cuda deep_x_cuda;
pass_cuda deep_y_cuda;

const struct pass_type pass_deep_x = {"resample x 16", deep_x_cpu, PASS_CUDA(deep_x_cuda)};

/* Samples that are summed together, so that their sums stay in the L1 cache. */
#define SUMS 512

VECTOR_CLONES
static void add_row(int64_t *restrict sums, const uint16_t *restrict row, int32_t weight,
                    size_t count)
{
    for (size_t i = 0; i < count; i++)
        sums[i] += (int64_t)weight * row[i];
}

/* Computes `count` samples of a row of the result, from sample `at` on. */
static void sum_columns(const struct resample *resample, const struct image *from, int32_t first,
                        const int32_t *weights, size_t at, size_t count, uint16_t *to)
{
    int64_t sums[SUMS] = {0};
    uint16_t made[SUMS];
    uint32_t taps = taps_of(resample, first, from->height);
    for (uint32_t t = 0; t < taps; t++) {
        const uint16_t *row = row_of(from, (size_t)first + t) + at;
        if (resample->premultiply)
            premultiply_row(row, made, count / 4);
        add_row(sums, resample->premultiply ? made : row, weights[t], count);
    }
    for (size_t i = 0; i < count; i++)
        to[at + i] = deep_clip(sums[i]);
}

PASS_LOOP(deep_y_cpu)
{
    const struct resample *resample = (const struct resample *)pass->params;
    const int32_t *first = (const int32_t *)pass->constants, *weights = first + to->height;
    size_t row_samples = (size_t)to->width * image_samples(to->channels);
    /* pass_is_late is called for every row, because a row may need nearly the whole source. */
    for (uint32_t y = 0; y < to->height && !pass_is_late(pass); y++) {
        uint16_t *row = row_of(to, y);
        for (size_t at = 0; at < row_samples; at += SUMS)
            sum_columns(resample, from, first[y], weights + (size_t)y * resample->taps, at,
                        row_samples - at < SUMS ? row_samples - at : SUMS, row);
        if (resample->divide)
            divide_row(row, to->width);
    }
}

const struct pass_type pass_deep_y = {"resample y 16", deep_y_cpu, PASS_CUDA(deep_y_cuda)};
