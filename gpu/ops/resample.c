/* resample.c - the passes of resample.h on the CPU. */
#include "gpu/ops/resample.h"

#include <string.h>

#include "gpu/ops/resample_strips.h"

/* Bytes of a row of the result that resample_y sums together, so that the sums stay in the L1
 * cache. */
#define SUMS 1024

#define HALF (1 << (RESAMPLE_BITS - 1))

/* ---- along a row ---- */

/*
 * To sum the neighbours within a row, vector instructions would have to add up the elements of a
 * vector for each byte of the result. Instead, LANES rows are transposed together. The bytes of a
 * column in all LANES rows are then adjacent, and are multiplied by the same weight.
 */
#define LANES 16
/* A tile is the part of LANES rows that is transposed at once: TILE_PIXELS of up to 4 channels. */
#define TILE_PIXELS 16
#define TILE        (TILE_PIXELS * 4)
#define TILE_BYTES  (TILE * LANES)

static_assert(LANES == PASS_ROWS_PER_LOOK, "LANES rows between two looks at the clock");

/* A tile is transposed by TURNS calls of turn(). The TURNS upper bits of a byte's index in a tile
 * are its row, and the lower bits are its column. turn() moves each byte to the index that is
 * rotated by one bit: the top bit becomes the lowest. So TURNS calls change [row][column] to
 * [column][row]. */
#define TURNS 4
static_assert(1 << TURNS == LANES, "each turn moves one of the bits that number the rows");
static_assert(RESAMPLE_TAPS_STEP == 8, "sum_pixel and add_rows have 8 products");

PIXEL void turn(const uint8_t *restrict from, uint8_t *restrict to)
{
    for (size_t i = 0; i < TILE_BYTES / 2; i++) {
        to[2 * i] = from[i];
        to[2 * i + 1] = from[TILE_BYTES / 2 + i];
    }
}

PIXEL void turn_back(const uint8_t *restrict from, uint8_t *restrict to)
{
    for (size_t i = 0; i < TILE_BYTES / 2; i++) {
        to[i] = from[2 * i];
        to[TILE_BYTES / 2 + i] = from[2 * i + 1];
    }
}

/* Transposes LANES rows to columns, as int32_t. Writes whole tiles; columns after the last one are
 * 0. */
VECTOR_CLONES
static void turn_rows(const uint8_t *const rows[LANES], size_t row_bytes, int32_t *columns)
{
    uint8_t a[TILE_BYTES], b[TILE_BYTES];
    for (size_t at = 0; at < row_bytes; at += TILE) {
        if (row_bytes - at >= TILE) {
            for (size_t r = 0; r < LANES; r++)
                memcpy(a + r * TILE, rows[r] + at, TILE);
        } else {
            memset(a, 0, sizeof a);
            for (size_t r = 0; r < LANES; r++)
                memcpy(a + r * TILE, rows[r] + at, row_bytes - at);
        }
        turn(a, b);
        turn(b, a);
        turn(a, b);
        turn(b, a);
        for (size_t i = 0; i < TILE_BYTES; i++)
            columns[at * LANES + i] = a[i];
    }
}

PIXEL void premultiply_run(int32_t *restrict colours, const int32_t *restrict alpha)
{
    for (size_t i = 0; i < LANES; i++)
        colours[i] = (int32_t)resample_premultiply((uint32_t)colours[i], (uint32_t)alpha[i]);
}

VECTOR_CLONES
static void premultiply_columns(int32_t *columns, size_t width)
{
    for (size_t x = 0; x < width; x++, columns += 4 * LANES)
        for (size_t c = 0; c < 3; c++)
            premultiply_run(columns + c * LANES, columns + 3 * LANES);
}

/* Computes a pixel of the result in each of LANES rows. */
PIXEL void sum_pixel(const int32_t *restrict columns, const int32_t *restrict weights, size_t taps,
                     uint8_t *restrict to, size_t channels)
{
    int32_t sums[4 * LANES];
    size_t pixel = channels * LANES;
    for (size_t i = 0; i < pixel; i++)
        sums[i] = HALF;
    for (size_t t = 0; t < taps; t += RESAMPLE_TAPS_STEP) {
        const int32_t *restrict from = columns + t * pixel, *restrict w = weights + t;
        for (size_t i = 0; i < pixel; i++)
            sums[i] += from[i] * w[0] + from[pixel + i] * w[1] + from[2 * pixel + i] * w[2] +
                       from[3 * pixel + i] * w[3] + from[4 * pixel + i] * w[4] +
                       from[5 * pixel + i] * w[5] + from[6 * pixel + i] * w[6] +
                       from[7 * pixel + i] * w[7];
    }
    for (size_t i = 0; i < pixel; i++)
        to[i] = (uint8_t)resample_clip(sums[i]);
}

/* Computes LANES rows of the result from row y on, and transposes them back. */
PIXEL void sum_run(const int32_t *columns, const int32_t *first, const int32_t *weights,
                   size_t taps, const struct image *to, uint32_t y, size_t channels)
{
    uint8_t a[TILE_BYTES] = {0}, b[TILE_BYTES];
    size_t rows = to->height - y < LANES ? to->height - y : LANES;
    for (size_t at = 0; at < to->width; at += TILE_PIXELS) {
        size_t count = to->width - at < TILE_PIXELS ? to->width - at : TILE_PIXELS;
        for (size_t x = 0; x < count; x++)
            sum_pixel(columns + (size_t)first[at + x] * channels * LANES, weights + (at + x) * taps,
                      taps, a + x * channels * LANES, channels);
        turn_back(a, b);
        turn_back(b, a);
        turn_back(a, b);
        turn_back(b, a);
        uint8_t *result = to->pixels + (size_t)y * to->stride + at * channels;
        for (size_t r = 0; r < rows; r++)
            if (count == TILE_PIXELS)
                memcpy(result + r * to->stride, a + r * TILE, TILE_PIXELS * channels);
            else
                memcpy(result + r * to->stride, a + r * TILE, count * channels);
    }
}

VECTOR_CLONES
static void sum_rows(const int32_t *columns, const int32_t *first, const int32_t *weights,
                     size_t taps, const struct image *to, uint32_t y)
{
    BY_CHANNELS(to->channels, sum_run, columns, first, weights, taps, to, y);
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

static size_t plain_x_bytes(uint32_t width, uint32_t channels, uint32_t taps)
{
    size_t row_bytes = (size_t)width * channels;
    return ((row_bytes + TILE - 1) / TILE * TILE + (size_t)taps * channels) * LANES *
           sizeof(int32_t);
}

size_t resample_x_work_bytes(const struct resample *x, struct pass_shape from, uint32_t outputs)
{
    size_t plain = plain_x_bytes(from.width, from.channels, x->taps);
    size_t strips = resample_strips_x_bytes(x, from, outputs);
    return plain > strips ? plain : strips;
}

PASS_LOOP(resample_x_cpu)
{
    if (resample_strips(&(struct pass_call){pass, *from, *to, work}, 1))
        return;
    const struct resample *resample = (const struct resample *)pass->params;
    const int32_t *first = (const int32_t *)pass->constants, *weights = first + to->width;
    int32_t *columns = (int32_t *)work;
    size_t row_bytes = (size_t)from->width * from->channels;
    /* The last pixels may read beyond the row, with weights of 0, so the rest must be defined. */
    size_t used = row_bytes * LANES * sizeof(*columns);
    memset(work + used, 0, plain_x_bytes(from->width, from->channels, resample->taps) - used);
    for (uint32_t y = 0; y < to->height && !pass_is_late(pass); y += LANES) {
        const uint8_t *rows[LANES];
        for (uint32_t r = 0; r < LANES; r++) {
            uint32_t row = y + r < to->height ? y + r : to->height - 1;
            rows[r] = from->pixels + (size_t)(resample->skip + row) * from->stride;
        }
        turn_rows(rows, row_bytes, columns);
        if (resample->premultiply)
            premultiply_columns(columns, from->width);
        sum_rows(columns, first, weights, resample->taps, to, y);
        for (uint32_t r = y; r < y + LANES && r < to->height && resample->divide; r++)
            divide_row(to->pixels + (size_t)r * to->stride, to->width);
    }
}

static void resample_joint(const struct pass_call *calls, uint32_t count)
{
    if (resample_strips(calls, count))
        return;
    for (const struct pass_call *call = calls; call < calls + count; call++)
        call->pass->type->cpu(call->pass, &call->from, &call->to, call->work);
}

pass_cuda_many resample_x_cuda;
pass_cuda_many resample_y_cuda;
pass_cuda pick_cuda;

const struct pass_type pass_resample_x = {"resample x", resample_x_cpu,
                                          PASS_JOINT(resample_joint, resample_x_cuda, 1)};

/* ---- down the columns ---- */

PIXEL void add_run(int32_t *restrict sums, const uint8_t *const rows[RESAMPLE_TAPS_STEP],
                   const int32_t w[RESAMPLE_TAPS_STEP], size_t count, bool begin)
{
    const uint8_t *restrict a = rows[0], *restrict b = rows[1], *restrict c = rows[2];
    const uint8_t *restrict d = rows[3], *restrict e = rows[4], *restrict f = rows[5];
    const uint8_t *restrict g = rows[6], *restrict h = rows[7];
    for (size_t i = 0; i < count; i++)
        sums[i] = (begin ? HALF : sums[i]) + a[i] * w[0] + b[i] * w[1] + c[i] * w[2] +
                  d[i] * w[3] + e[i] * w[4] + f[i] * w[5] + g[i] * w[6] + h[i] * w[7];
}

/* Adds the products of 8 rows to the sums. begin: sets the sums instead. */
VECTOR_CLONES
static void add_rows(int32_t *sums, const uint8_t *const rows[RESAMPLE_TAPS_STEP],
                     const int32_t w[RESAMPLE_TAPS_STEP], size_t count, bool begin)
{
    if (begin)
        add_run(sums, rows, w, count, true);
    else
        add_run(sums, rows, w, count, false);
}

/* Adds the products of one row of RGBA that is not premultiplied yet. */
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

/* Computes `count` bytes of a row of the result, from byte `at` on. first: the first row of the
 * source. Rows below the last one have weights of 0. */
static void sum_columns(const struct image *from, const struct resample *resample, size_t first,
                        const int32_t *weights, size_t at, size_t count, uint8_t *to)
{
    int32_t sums[SUMS];
    for (size_t i = 0; i < count && resample->premultiply; i++)
        sums[i] = HALF;
    for (size_t t = 0; t < resample->taps; t += RESAMPLE_TAPS_STEP) {
        const uint8_t *rows[RESAMPLE_TAPS_STEP];
        for (size_t k = 0; k < RESAMPLE_TAPS_STEP; k++) {
            size_t y = first + t + k < from->height ? first + t + k : from->height - 1;
            rows[k] = from->pixels + y * from->stride + at;
        }
        if (!resample->premultiply)
            add_rows(sums, rows, weights + t, count, t == 0);
        for (size_t k = 0; k < RESAMPLE_TAPS_STEP && resample->premultiply; k++)
            add_premultiplied(sums, rows[k], weights[t + k], count);
    }
    clip_row(sums, to + at, count);
}

PASS_LOOP(resample_y_cpu)
{
    if (resample_strips(&(struct pass_call){pass, *from, *to, work}, 1))
        return;
    const struct resample *resample = (const struct resample *)pass->params;
    const int32_t *first = (const int32_t *)pass->constants, *weights = first + to->height;
    size_t row_bytes = (size_t)to->width * to->channels;
    /* pass_is_late is called for every row, because a row may need nearly the whole source. */
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
                                          PASS_JOINT(resample_joint, resample_y_cuda, 1)};

/* ---- the nearest pixel ---- */

PASS_LOOP(pick_cpu)
{
    const int32_t *columns = (const int32_t *)pass->constants, *rows = columns + to->width;
    size_t channels = from->channels;
    for (uint32_t y = 0; y < to->height; y++) {
        const uint8_t *row = from->pixels + (size_t)rows[y] * from->stride;
        uint8_t *result = to->pixels + (size_t)y * to->stride;
        for (uint32_t x = 0; x < to->width; x++)
            for (size_t c = 0; c < channels; c++)
                result[x * channels + c] = row[(size_t)columns[x] * channels + c];
    }
}

const struct pass_type pass_pick = {"pick", pick_cpu, PASS_CUDA(pick_cuda)};
