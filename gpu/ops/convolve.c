/* convolve.c - the operation convolve, and its CPU loops. */
#include "gpu/ops/convolve.h"

#include <math.h>
#include <string.h>

#include "gpu/ops/point.h"
#include "gpu/ops/window.h"
#include "gpu/plan/op.h"

/* Bytes of a row whose sums are computed together, so that the sums fit in the L1 cache. */
#define CHUNK 1024

VECTOR_CLONES
static void add_tap(const uint8_t *restrict from, int32_t *restrict sums, size_t count,
                    int32_t weight)
{
    for (size_t x = 0; x < count; x++)
        sums[x] += weight * from[x];
}

VECTOR_CLONES
static void cut_sums(const int32_t *restrict sums, uint8_t *restrict to, size_t count)
{
    for (size_t x = 0; x < count; x++)
        to[x] = (uint8_t)convolve_byte(sums[x]);
}

static void convolve_row(const struct convolve *convolve, const uint8_t *const *rows, uint8_t *to,
                         size_t bytes, ptrdiff_t channels)
{
    int32_t sums[CHUNK];
    for (size_t x = 0; x < bytes; x += CHUNK) {
        size_t count = bytes - x < CHUNK ? bytes - x : CHUNK;
        for (size_t i = 0; i < count; i++)
            sums[i] = convolve->start;
        for (int j = 0; j < convolve->rows; j++) {
            for (int i = 0; i < convolve->columns; i++) {
                int32_t weight = convolve->weights[j * convolve->columns + i];
                if (weight != 0)
                    add_tap(rows[j] + x + (i - convolve->columns / 2) * channels, sums, count,
                            weight);
            }
        }
        cut_sums(sums, to + x, count);
    }
}

PASS_LOOP(convolve_cpu)
{
    const struct convolve *convolve = (const struct convolve *)pass->params;
    int down = convolve->rows / 2;
    struct window window;
    window_open(&window, from, &convolve->prologue, convolve->border, convolve->columns / 2, down,
                work);
    for (uint32_t y = 0; y < from->height && !pass_is_late_at(pass, y); y++) {
        const uint8_t *rows[CONVOLVE_SIDE_MAX];
        uint8_t *row = to->pixels + y * to->stride;
        for (int j = -down; j <= down; j++)
            rows[j + down] = window_row(&window, (int)y, j);
        convolve_row(convolve, rows, row, (size_t)to->width * to->channels,
                     (ptrdiff_t)to->channels);
        if (to->channels == 4)
            window_keep_alpha(from->pixels + y * from->stride, row, from->width);
    }
}

pass_cuda convolve_cuda;

static const struct pass_type types[2][2] =
    PROLOGUE_FORMS("convolve", convolve_cpu, PASS_CUDA(convolve_cuda));

/* Bounds of the kernel's numbers and of the divisor, within which no step overflows. */
#define NUMBER_MAX 1e9
#define SCALE_MIN 1e-9
/* Upper bound of the rounding error of the sum of 225 numbers, relative to the sum of their
 * magnitudes. */
#define SUM_ERROR 1e-13

static_assert(sizeof(struct convolve) <= PASS_PARAMS_BYTES_MAX, "a pass must hold its weights");

struct params {
    struct op_matrix kernel;
    double scale, offset;
    int border;
};

static const struct op_param convolve_params[] = {
    {OP_ODD_MATRIX(struct params, kernel), .need = OP_REQUIRED, .rows = CONVOLVE_SIDE_MAX,
     .columns = CONVOLVE_SIDE_MAX, .min = -NUMBER_MAX, .max = NUMBER_MAX},
    {OP_NUMBER(struct params, scale), .need = OP_OPTIONAL, .min = -NUMBER_MAX, .max = NUMBER_MAX,
     .help = "The divisor of the kernel, at least 1e-9 away from 0; by default the kernel's sum, "
             "or 1 if the sum is 0"},
    {OP_NUMBER(struct params, offset), .min = -CONVOLVE_OFFSET_MAX, .max = CONVOLVE_OFFSET_MAX,
     .help = "Added to the divided sum"},
    {OP_WORD(struct params, border), .words = BORDER_WORDS,
     .help = "The values of pixels outside the image"}};

static double sum_kernel(const struct op_matrix *kernel)
{
    double sum = 0, size = 0;
    for (int i = 0; i < kernel->rows * kernel->columns; i++) {
        sum += kernel->values[i];
        size += fabs(kernel->values[i]);
    }
    /* A sum within the rounding error counts as 0: 0.1 + 0.2 - 0.3 is not exactly 0. */
    return fabs(sum) <= size * SUM_ERROR ? 1 : sum;
}

static double weight_at(const struct params *own, int i)
{
    return rint(65536 * (own->kernel.values[i] / own->scale));
}

static enum status convolve_check(const struct op_item *item, void *params, struct error *error)
{
    struct params *own = params;
    double sum = 0;
    if (!op_given(item, "scale"))
        own->scale = sum_kernel(&own->kernel);
    else if (fabs(own->scale) < SCALE_MIN)
        return op_refuse(item, error, ": scale is %.10g; its absolute value must be at least %.10g",
                         own->scale, SCALE_MIN);
    for (int i = 0; i < own->kernel.rows * own->kernel.columns; i++) {
        sum += fabs(weight_at(own, i));
        if (!(sum <= CONVOLVE_WEIGHT_SUM_MAX))
            return op_refuse(item, error,
                             ": the absolute values of kernel / scale sum to %.10g or more; "
                             "at most %d is allowed",
                             sum / 65536, CONVOLVE_WEIGHT_SUM_MAX / 65536);
    }
    return STATUS_OK;
}

static enum status convolve_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
    struct convolve convolve = {.rows = own->kernel.rows, .columns = own->kernel.columns,
                                .border = (enum border)own->border,
                                .start = (int32_t)rint(65536 * own->offset) + 32768};
    for (int i = 0; i < convolve.rows * convolve.columns; i++)
        convolve.weights[i] = (int32_t)weight_at(own, i);
    struct prologue *prologue = &convolve.prologue;
    const struct pass_shape to = point_lift(chain, prologue);
    struct pass *pass = chain_add(chain, &types[prologue->makes_gray][prologue->looks_up], to,
                                  &convolve, sizeof(convolve));
    pass->work_bytes = window_bytes(to.width, to.channels, convolve.columns / 2, convolve.rows / 2);
    return STATUS_OK;
}

const struct op op_convolve = {
    .name = "convolve",
    .help = "Applies a kernel without mirroring it, as OpenCV's filter2D",
    .definition = "(sum W v + B + 32768) >> 16, clamped to 0..255, with the pixels v under the "
                  "kernel, W = rint(65536 kernel / scale) and B = rint(65536 offset). The result "
                  "equals OpenCV's `filter2D` if kernel / scale and offset are integers. The "
                  "sum of |W| is at most 127 * 65536, so that every sum fits in 32 bits. If the "
                  "kernel's sum is 0 except for rounding, the default scale is 1. Each colour "
                  "is processed alone. Alpha is kept, but OpenCV would filter it.",
    OP_PARAMS(struct params, convolve_params),
    .check = convolve_check,
    .step = convolve_step,
};
