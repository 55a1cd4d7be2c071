/* median.c - the operation median, and its CPU loops. */
#include <string.h>

#include "gpu/ops/point.h"
#include "gpu/ops/window.h"
#include "gpu/plan/op.h"

#define MEDIAN uint8_t
#define MEDIAN_INLINE PIXEL

PIXEL uint8_t median_min(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

PIXEL uint8_t median_max(uint8_t a, uint8_t b)
{
    return a < b ? b : a;
}

#include "gpu/ops/median.h"

/* Sort the values of each column of 3 or 5 rows. The value of rank r goes to the row ranks + r *
 * pitch. */
VECTOR_CLONES
static void sort_columns3(const uint8_t *a, const uint8_t *b, const uint8_t *c,
                          uint8_t *restrict ranks, size_t pitch, size_t count)
{
    uint8_t *restrict low = ranks, *restrict middle = ranks + pitch;
    uint8_t *restrict high = ranks + 2 * pitch;
    for (size_t x = 0; x < count; x++) {
        uint8_t u = a[x], v = b[x], w = c[x];
        median_sort3(&u, &v, &w);
        low[x] = u;
        middle[x] = v;
        high[x] = w;
    }
}

VECTOR_CLONES
static void sort_columns5(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d,
                          const uint8_t *e, uint8_t *restrict ranks, size_t pitch, size_t count)
{
    uint8_t *restrict r0 = ranks, *restrict r1 = ranks + pitch, *restrict r2 = ranks + 2 * pitch;
    uint8_t *restrict r3 = ranks + 3 * pitch, *restrict r4 = ranks + 4 * pitch;
    for (size_t x = 0; x < count; x++) {
        uint8_t u = a[x], v = b[x], w = c[x], s = d[x], t = e[x];
        median_sort5(&u, &v, &w, &s, &t);
        r0[x] = u;
        r1[x] = v;
        r2[x] = w;
        r3[x] = s;
        r4[x] = t;
    }
}

VECTOR_CLONES
static void median_row3(const uint8_t *restrict ranks, size_t pitch, uint8_t *restrict to,
                        size_t bytes, size_t step)
{
    const uint8_t *a = ranks, *b = ranks + pitch, *c = ranks + 2 * pitch;
    for (size_t x = 0; x < bytes; x++)
        to[x] = median_of9(a[x], a[x + step], a[x + 2 * step], b[x], b[x + step], b[x + 2 * step],
                           c[x], c[x + step], c[x + 2 * step]);
}

VECTOR_CLONES
static void median_row5(const uint8_t *restrict ranks, size_t pitch, uint8_t *restrict to,
                        size_t bytes, size_t step)
{
    for (size_t x = 0; x < bytes; x++) {
        uint8_t values[5][5];
        for (size_t r = 0; r < 5; r++)
            for (size_t c = 0; c < 5; c++)
                values[r][c] = ranks[r * pitch + x + c * step];
        to[x] = median_of25(values);
    }
}

PASS_LOOP(median_cpu)
{
    const struct median *median = (const struct median *)pass->params;
    int radius = median->size / 2;
    size_t bytes = (size_t)to->width * to->channels, step = to->channels;
    size_t wide = bytes + 2 * (size_t)radius * step;
    size_t pitch = window_pitch(to->width, to->channels, radius);
    uint8_t *ranks = work + window_bytes(to->width, to->channels, radius, radius);
    struct window window;
    window_open(&window, from, &median->prologue, BORDER_REPLICATE, radius, radius, work);
    for (uint32_t y = 0; y < from->height && !pass_is_late_at(pass, y); y++) {
        const uint8_t *rows[5];
        uint8_t *row = to->pixels + y * to->stride;
        for (int j = -radius; j <= radius; j++)
            rows[j + radius] = window_row(&window, (int)y, j) - (size_t)radius * step;
        if (radius == 1) {
            sort_columns3(rows[0], rows[1], rows[2], ranks, pitch, wide);
            median_row3(ranks, pitch, row, bytes, step);
        } else {
            sort_columns5(rows[0], rows[1], rows[2], rows[3], rows[4], ranks, pitch, wide);
            median_row5(ranks, pitch, row, bytes, step);
        }
        if (to->channels == 4)
            window_keep_alpha(from->pixels + y * from->stride, row, from->width);
    }
}

pass_cuda median_cuda;

static const struct pass_type types[2][2] =
    PROLOGUE_FORMS("median", median_cpu, PASS_CUDA(median_cuda));

struct params {
    int size;
};

static const struct op_param median_params[] = {
    {OP_ODD(struct params, size), .min = 3, .max = 5, .standard = 3}};

static enum status median_step(const void *params, struct chain *chain)
{
    struct median median = {.size = ((const struct params *)params)->size};
    int radius = median.size / 2;
    struct prologue *prologue = &median.prologue;
    const struct pass_shape to = point_lift(chain, prologue);
    struct pass *pass = chain_add(chain, &types[prologue->makes_gray][prologue->looks_up], to,
                                  &median, sizeof(median));
    pass->work_bytes = window_bytes(to.width, to.channels, radius, radius) +
                       (size_t)median.size * window_pitch(to.width, to.channels, radius);
    return STATUS_OK;
}

const struct op op_median = {
    .name = "median",
    .help = "Computes the median of 3 x 3 or 5 x 5 pixels, as OpenCV's medianBlur for 1 and 3 "
            "channels",
    .definition = "The median of the 9 or 25 values around the pixel, with replicated borders. "
                  "Colours are processed independently; alpha is kept, while OpenCV would filter "
                  "it.",
    OP_PARAMS(struct params, median_params),
    .step = median_step,
};
