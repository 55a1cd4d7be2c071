/*
 * point_ops.c - the operations that compute each pixel only from itself: grayscale, invert, gamma,
 * levels, threshold, color_matrix.
 *
 * The plan computes their tables once, in double. Both engines use the same tables, so they cannot
 * differ by the precision of the C library's pow.
 */
#include <math.h>

#include "gpu/ops/point.h"
#include "gpu/plan/op.h"

#define GAMMA_MIN 0.01
#define GAMMA_MAX 100

/* ---- grayscale ---- */

struct gray_weights {
    int weights[3];
};

static const struct op_param grayscale_params[] = {
    {OP_INTEGERS(struct gray_weights, weights), .columns = 3, .max = 65536,
     .standards = (const int[]){19595, 38470, 7471},
     .help = "The weights of red, green and blue, in 1/65536; their sum is 65536"}};

static enum status grayscale_check(const struct op_item *item, void *params, struct error *error)
{
    const struct gray_weights *own = params;
    int sum = own->weights[0] + own->weights[1] + own->weights[2];
    if (sum == 65536)
        return STATUS_OK;
    return op_refuse(item, error, ": weights sum to %d; they must sum to 65536", sum);
}

static uint16_t weight_16(int weight)
{
    return (uint16_t)(weight > GRAYSCALE_WHOLE ? GRAYSCALE_WHOLE : weight);
}

static enum status grayscale_step(const void *params, struct chain *chain)
{
    const struct gray_weights *own = params;
    struct grayscale gray = grayscale_default(chain->background);
    gray.r = weight_16(own->weights[0]);
    gray.g = weight_16(own->weights[1]);
    gray.b = weight_16(own->weights[2]);
    point_add_gray(chain, &gray);
    return STATUS_OK;
}

const struct op op_grayscale = {
    .name = "grayscale",
    .help = "Converts to gray by ITU-R BT.601, as libjpeg does",
    .definition = "With the default weights, Y = (19595 R + 38470 G + 7471 B + 32768) >> 16, "
                  "which is ITU-R BT.601-7 as in libjpeg. The gray of a YCbCr JPEG may be its Y "
                  "channel, see above.",
    .flags = OP_GRAY_BY_DEFAULT | OP_POINT | OP_ANY_SCALE,
    OP_PARAMS(struct gray_weights, grayscale_params),
    .check = grayscale_check,
    .step = grayscale_step,
};

/* ---- invert ---- */

static enum status invert_step(const void *params, struct chain *chain)
{
    uint8_t table[256];
    (void)params;
    for (int v = 0; v < 256; v++)
        table[v] = (uint8_t)(255 - v);
    point_add_table(chain, table);
    return STATUS_OK;
}

const struct op op_invert = {
    .name = "invert",
    .help = "Inverts each colour: the negative",
    .definition = "255 - v for each colour.",
    .flags = OP_POINT,
    .step = invert_step,
};

/* ---- gamma ---- */

struct gamma {
    double gamma;
};

static const struct op_param gamma_params[] = {{OP_NUMBER(struct gamma, gamma), .need = OP_REQUIRED,
                                                .min = GAMMA_MIN, .max = GAMMA_MAX,
                                                .help = "Above 1 makes the image brighter"}};

static enum status gamma_step(const void *params, struct chain *chain)
{
    const struct gamma *own = params;
    uint8_t table[256];
    for (int v = 0; v < 256; v++)
        table[v] = (uint8_t)floor(255.0 * pow(v / 255.0, 1.0 / own->gamma) + 0.5);
    point_add_table(chain, table);
    return STATUS_OK;
}

const struct op op_gamma = {
    .name = "gamma",
    .help = "Applies a gamma curve to each colour",
    .definition = "255 (v/255)^(1/gamma), round half up. Computed once per job in double, as a "
                  "table.",
    .flags = OP_POINT,
    OP_PARAMS(struct gamma, gamma_params),
    .step = gamma_step,
};

/* ---- levels ---- */

struct levels {
    int in_black, in_white, out_black, out_white;
    double gamma;
};

static const struct op_param levels_params[] = {
    {OP_INTEGER(struct levels, in_black), .max = 255, .help = "Must be below `in_white`"},
    {OP_INTEGER(struct levels, in_white), .max = 255, .standard = 255},
    {OP_NUMBER(struct levels, gamma), .min = GAMMA_MIN, .max = GAMMA_MAX, .standard = 1,
     .help = "Above 1 makes the image brighter"},
    {OP_INTEGER(struct levels, out_black), .max = 255,
     .help = "If it is above `out_white`, the image is inverted"},
    {OP_INTEGER(struct levels, out_white), .max = 255, .standard = 255}};

static enum status levels_check(const struct op_item *item, void *params, struct error *error)
{
    const struct levels *own = params;
    if (own->in_black < own->in_white)
        return STATUS_OK;
    return op_refuse(item, error, ": in_black is %d; it must be below in_white, %d", own->in_black,
                     own->in_white);
}

/* Without a gamma, the product is computed before the division, so that results that end in .5 are
 * exact. */
static uint8_t level(const struct levels *own, int v)
{
    int inside = v < own->in_black ? own->in_black : v > own->in_white ? own->in_white : v;
    double k = (double)(inside - own->in_black), n = (double)(own->in_white - own->in_black);
    double range = (double)(own->out_white - own->out_black);
    double part = own->gamma == 1.0 ? k * range / n : range * pow(k / n, 1.0 / own->gamma);
    return (uint8_t)floor((double)own->out_black + part + 0.5);
}

static enum status levels_step(const void *params, struct chain *chain)
{
    const struct levels *own = params;
    uint8_t table[256];
    for (int v = 0; v < 256; v++)
        table[v] = level(own, v);
    point_add_table(chain, table);
    return STATUS_OK;
}

const struct op op_levels = {
    .name = "levels",
    .help = "Maps a range of each colour to another range",
    .definition = "With k = min(max(v, in_black), in_white) - in_black and n = in_white - "
                  "in_black: out_black + (out_white - out_black) (k/n)^(1/gamma), round half up. "
                  "Computed once per job in double, as a table.",
    .flags = OP_POINT,
    OP_PARAMS(struct levels, levels_params),
    .check = levels_check,
    .step = levels_step,
};

/* ---- threshold ---- */

struct threshold {
    int value;
    bool invert;
};

static const struct op_param threshold_params[] = {
    {OP_INTEGER(struct threshold, value), .max = 255, .standard = 127},
    {OP_BOOLEAN(struct threshold, invert), .help = "true exchanges 255 and 0"}};

static enum status threshold_step(const void *params, struct chain *chain)
{
    const struct threshold *own = params;
    struct grayscale gray = grayscale_default(chain->background);
    uint8_t table[256];
    for (int v = 0; v < 256; v++)
        table[v] = (v > own->value) != own->invert ? 255 : 0;
    point_add_gray(chain, &gray);
    point_add_table(chain, table);
    return STATUS_OK;
}

const struct op op_threshold = {
    .name = "threshold",
    .help = "Sets gray to 255 above a value, else to 0",
    .definition = "Converts to gray first. 255 if v > value, else 0. As OpenCV's `THRESH_BINARY` "
                  "and `THRESH_BINARY_INV` with 255.",
    .flags = OP_STARTS_GRAY | OP_POINT | OP_BILEVEL,
    OP_PARAMS(struct threshold, threshold_params),
    .step = threshold_step,
};

/* ---- color_matrix ---- */

struct color_matrix {
    struct op_matrix matrix;
};

static const struct op_param color_matrix_params[] = {
    {OP_MATRIX(struct color_matrix, matrix), .need = OP_REQUIRED, .rows = 3, .columns = 4,
     .min = -POINT_COEFFICIENT_MAX, .max = POINT_COEFFICIENT_MAX, .last_max = POINT_OFFSET_MAX,
     .help = "A row [red,green,blue,offset] per colour"}};

static enum status color_matrix_step(const void *params, struct chain *chain)
{
    const struct color_matrix *own = params;
    int32_t coefficients[12];
    for (int i = 0; i < 12; i++)
        coefficients[i] = (int32_t)floor(own->matrix.values[i] * 65536.0 + 0.5);
    point_add_matrix(chain, coefficients);
    return STATUS_OK;
}

const struct op op_color_matrix = {
    .name = "color_matrix",
    .help = "Makes each colour a weighted sum of red, green, blue and 1",
    .definition = "Each number c of a row is rounded to C = floor(65536 c + 1/2) / 65536. The "
                  "colour is C0 R + C1 G + C2 B + C3 + 1/2, rounded down and clamped to 0..255. "
                  "Gray counts as R = G = B and becomes RGB.",
    .flags = OP_POINT,
    OP_PARAMS(struct color_matrix, color_matrix_params),
    .step = color_matrix_step,
};
