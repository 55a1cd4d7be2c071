/* convolve.c - the operation, and its loops on the CPU. */
#include "gpu/ops/convolve.h"

#include <math.h>
#include <string.h>

#include "gpu/ops/point.h"
#include "gpu/ops/window.h"
#include "gpu/plan/op.h"

/* ---- the CPU's loops ---- */

/* Bytes of a row that are summed at a time: their sums stay in the first-level cache. */
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

static void convolve_cpu(const struct pass *pass, const struct image *from,
                         const struct image *to, uint8_t *work)
{
    const struct convolve *convolve = (const struct convolve *)pass->params;
    int down = convolve->rows / 2;
    struct window window;
    window_open(&window, from, &convolve->intake, convolve->border, convolve->columns / 2, down,
                work);
    for (uint32_t y = 0; y < from->height; y++) {
        const uint8_t *rows[CONVOLVE_SIDE_MAX];
        if (pass_is_late_at(pass, y))
            return;
        uint8_t *row = to->pixels + y * to->stride;
        for (int j = -down; j <= down; j++)
            rows[j + down] = window_row(&window, (int)y, j);
        convolve_row(convolve, rows, row, (size_t)to->width * to->channels,
                     (ptrdiff_t)to->channels);
        if (to->channels == 4)
            window_keep_alpha(from->pixels + y * from->stride, row, from->width);
    }
}

static const struct pass_type types[2][2] = INTAKE_FORMS("convolve", convolve_cpu, convolve_cuda);

/* ---- the operation ---- */

/* Bounds of the numbers in a kernel and of what they are divided by: no step overflows. */
#define NUMBER_MAX 1e9
#define SCALE_MIN 1e-9
/* 225 numbers are summed with an error of less than this part of their sizes' sum. */
#define SUM_ERROR 1e-13

static_assert(sizeof(struct convolve) <= PASS_PARAMS_BYTES_MAX, "a pass must hold its weights");

/* Weights in 1/65536; bad_op where they are too large together. */
static enum status make_weights(const struct op_item *item, const double *kernel, double scale,
                                struct convolve *convolve)
{
    double sum = 0;
    for (int i = 0; i < convolve->rows * convolve->columns; i++) {
        double weight = rint(65536 * (kernel[i] / scale));
        sum += fabs(weight);
        if (!(sum <= CONVOLVE_WEIGHT_SUM_MAX))
            return error_set(item->error, STATUS_BAD_OP,
                             "%s: kernel / scale has numbers that sum to %.10g or more without "
                             "their signs; at most %d is allowed", item->place, sum / 65536,
                             CONVOLVE_WEIGHT_SUM_MAX / 65536);
        convolve->weights[i] = (int32_t)weight;
    }
    return STATUS_OK;
}

/* What the kernel is divided by where the job does not say. */
static enum status sum_kernel(const struct op_item *item, const struct convolve *convolve,
                              const double *kernel, double *scale)
{
    double sum = 0, size = 0;
    for (int i = 0; i < convolve->rows * convolve->columns; i++) {
        if (!(fabs(kernel[i]) <= NUMBER_MAX))
            return error_set(item->error, STATUS_BAD_OP,
                             "%s: kernel[%d][%d] is %.10g; it must be %.10g to %.10g", item->place,
                             i / convolve->columns, i % convolve->columns, kernel[i], -NUMBER_MAX,
                             NUMBER_MAX);
        sum += kernel[i];
        size += fabs(kernel[i]);
    }
    /* 0.1 + 0.2 - 0.3 is not quite 0. */
    *scale = fabs(sum) <= size * SUM_ERROR ? 1 : sum;
    return STATUS_OK;
}

static enum status convolve_parse(const struct op_item *item, void *params)
{
    static const char *const borders[] = {"reflect101", "replicate", "zero", NULL};
    struct convolve *own = params;
    double kernel[CONVOLVE_SIDE_MAX * CONVOLVE_SIDE_MAX], scale = 0, offset = 0;
    size_t rows, columns;
    int border = BORDER_REFLECT101;
    enum status status = op_odd_matrix(item, "kernel", CONVOLVE_SIDE_MAX, kernel, &rows, &columns);
    if (status)
        return status;
    own->rows = (int)rows;
    own->columns = (int)columns;
    status = sum_kernel(item, own, kernel, &scale);
    if (!status)
        status = op_number(item, "scale", -NUMBER_MAX, NUMBER_MAX, &scale);
    if (!status && op_given(item, "scale") && fabs(scale) < SCALE_MIN)
        status = error_set(item->error, STATUS_BAD_OP,
                           "%s: scale is %.10g; it must be %.10g at least, without its sign",
                           item->place, scale, SCALE_MIN);
    if (!status)
        status = op_number(item, "offset", -CONVOLVE_OFFSET_MAX, CONVOLVE_OFFSET_MAX, &offset);
    if (!status)
        status = op_word(item, "border", borders, &border);
    own->border = (enum border)border;
    own->start = (int32_t)rint(65536 * offset) + 32768;
    return status ? status : make_weights(item, kernel, scale, own);
}

static enum status convolve_step(const struct op_item *item, const void *params,
                                 struct chain *chain)
{
    struct convolve convolve = *(const struct convolve *)params;
    (void)item;
    struct intake *intake = &convolve.intake;
    const struct pass_shape to = point_lift(chain, intake);
    struct pass *pass = chain_add(chain, &types[intake->makes_gray][intake->looks_up], to,
                                  &convolve, sizeof(convolve));
    pass->work_bytes = window_bytes(to.width, to.channels, convolve.columns / 2,
                                    convolve.rows / 2);
    return STATUS_OK;
}

static const char *const names[] = {"kernel", "scale", "offset", "border", NULL};
const struct op op_convolve = {"convolve", names, convolve_parse, convolve_step, NULL};
