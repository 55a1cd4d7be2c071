/* color_matrix.c - the color_matrix operation: weighted sums of R, G and B. */
#include <math.h>

#include "gpu/ops/point.h"
#include "gpu/plan/op.h"

struct params {
    struct op_matrix matrix;
};

static const struct op_param color_matrix_params[] = {
    {OP_MATRIX(struct params, matrix), .need = OP_REQUIRED, .rows = 3, .columns = 4,
     .min = -POINT_COEFFICIENT_MAX, .max = POINT_COEFFICIENT_MAX, .last_max = POINT_OFFSET_MAX,
     .help = "A row [red,green,blue,offset] per colour"},
    {.name = NULL}};

static enum status color_matrix_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
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
    .params = color_matrix_params,
    .step = color_matrix_step,
};
