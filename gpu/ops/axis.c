/* axis.c - the weights of a resize, for each pixel of the result. */
#include "gpu/ops/axis.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "codecs/image.h"

/* ---- filters: x is a distance in pixels of the source, or of the result if that is smaller
 * ---- */

static double filter_box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double filter_bilinear(double x)
{
    double distance = fabs(x);
    return distance < 1.0 ? 1.0 - distance : 0.0;
}

/* Keys' cubic with a = -1/2. */
static double filter_bicubic(double x)
{
    double d = fabs(x);
    if (d < 1.0)
        return ((-0.5 + 2.0) * d - (-0.5 + 3.0)) * d * d + 1;
    if (d < 2.0)
        return (((d - 5) * d + 8) * d - 4) * -0.5;
    return 0.0;
}

static double sinc(double x)
{
    if (x == 0.0)
        return 1.0;
    double angle = x * M_PI;
    return sin(angle) / angle;
}

static double filter_lanczos3(double x)
{
    return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

static const struct {
    double (*weight)(double x);
    double support;
} filters[] = {
    [FILTER_BOX] = {filter_box, 0.5},
    [FILTER_BILINEAR] = {filter_bilinear, 1.0},
    [FILTER_BICUBIC] = {filter_bicubic, 2.0},
    [FILTER_LANCZOS3] = {filter_lanczos3, 3.0},
};

/* ---- tables ---- */

double axis_scale(const struct axis *axis)
{
    return (axis->end - axis->start) / axis->total;
}

bool axis_is_same(const struct axis *axis)
{
    return axis->total == axis->inputs && axis->start == 0 && axis->end == axis->inputs;
}

/* The pixels of the source from which a pixel of the result is computed, and the distance of its
 * centre from the first of them. */
struct window {
    uint32_t first, count;
    double centre;
};

static double axis_support(const struct axis *axis)
{
    double scale = axis_scale(axis);
    return filters[axis->filter].support * (scale < 1.0 ? 1.0 : scale);
}

static struct window axis_window(const struct axis *axis, uint32_t output)
{
    double support = axis_support(axis);
    double centre = axis->start + (axis->at + output + 0.5) * axis_scale(axis);
    int low = (int)(centre - support + 0.5), high = (int)(centre + support + 0.5);
    low = low < 0 ? 0 : low;
    high = high > (int)axis->inputs ? (int)axis->inputs : high;
    return (struct window){(uint32_t)low, (uint32_t)(high - low), centre - low};
}

/* After this number of pixels of the result, the same weights occur again, except at the ends and
 * for rounding: it is the smallest number of steps that is a whole number of pixels of the source.
 * The length of the part is a multiple of 1/8. */
static uint32_t axis_period(const struct axis *axis)
{
    uint64_t steps = (uint64_t)axis->total * DECODE_EIGHTHS, divisor = steps;
    uint64_t span = (uint64_t)((axis->end - axis->start) * DECODE_EIGHTHS);
    while (span) {
        uint64_t rest = divisor % span;
        divisor = span;
        span = rest;
    }
    return (uint32_t)(steps / divisor);
}

uint32_t axis_reach(const struct axis *axis)
{
    /* A window has no more pixels, even if its ends are rounded. Usually one of the first has. */
    uint32_t most = 1, limit = (uint32_t)(2 * axis_support(axis) + 1e-6) + 1;
    for (uint32_t i = 0; i < axis->outputs && most < limit; i++) {
        uint32_t count = axis_window(axis, i).count;
        most = count > most ? count : most;
    }
    return most;
}

/* Computes the weights of a pixel of the result. Up to kept_max of them are kept until their sum is
 * known; only extreme reductions have more, which are computed twice. */
static void window_fill(const struct axis *axis, const struct window *window, uint32_t bits,
                        int32_t *weights)
{
    enum { kept_max = 256 };
    double kept[kept_max];
    double scale = axis_scale(axis), shrink = 1.0 / (scale < 1.0 ? 1.0 : scale), sum = 0.0;
    double (*weight)(double) = filters[axis->filter].weight;
    for (uint32_t t = 0; t < window->count; t++) {
        double one = weight(((int)t - window->centre + 0.5) * shrink);
        if (t < kept_max)
            kept[t] = one;
        sum += one;
    }
    for (uint32_t t = 0; t < window->count; t++) {
        double share = t < kept_max ? kept[t] : weight(((int)t - window->centre + 0.5) * shrink);
        if (sum != 0.0)
            share /= sum;
        weights[t] = (int32_t)((share < 0 ? -0.5 : 0.5) + share * (1 << bits));
    }
}

void axis_crop(struct axis *axis, uint32_t at, uint32_t outputs)
{
    assert(outputs >= 1 && at + outputs <= axis->outputs);
    axis->at += at;
    axis->outputs = outputs;
}

void axis_skip_unused(struct axis *axis)
{
    struct window first = axis_window(axis, 0), last = axis_window(axis, axis->outputs - 1);
    axis->cut = first.first;
    axis->used = last.first + last.count - first.first;
}

void axis_fill(const struct axis *axis, uint32_t taps, uint32_t bits, int32_t *table)
{
    uint32_t period = axis_period(axis);
    for (uint32_t i = 0; i < axis->outputs; i++) {
        struct window window = axis_window(axis, i);
        struct window before = i >= period ? axis_window(axis, i - period) : (struct window){0};
        int32_t *weights = table + axis->outputs + (size_t)i * taps;
        table[i] = (int32_t)(axis->origin + window.first - axis->cut);
        /* The weights depend only on the count and the centre. */
        if (before.count == window.count && before.centre == window.centre)
            memcpy(weights, weights - (size_t)period * taps, window.count * sizeof(*weights));
        else
            window_fill(axis, &window, bits, weights);
    }
}

/* Steps are added up, not multiplied, as in Pillow. */
void axis_pick(const struct axis *axis, int32_t *table)
{
    assert(axis->outputs == axis->total);
    double step = axis_scale(axis), at = axis->start + step * 0.5;
    for (uint32_t i = 0; i < axis->outputs; i++, at += step) {
        int index = (int)at;
        if (index >= (int)axis->inputs) /* uncovered: net */
            index = (int)axis->inputs - 1;
        table[i] = (int32_t)axis->origin + index;
    }
}
