/*
 * color_matrix.c - R, G and B as weighted sums of R, G and B.
 *
 * Each coefficient is rounded to 1/65536 (half up) when the job is read; from there on all is
 * integers: (c0 R + c1 G + c2 B + c3 + 32768) >> 16, cut to 0..255. The last column is an offset
 * in units of a pixel's value.
 */
#include <math.h>

#include "gpu/ops/point.h"
#include "gpu/plan/op.h"

struct params {
    int32_t coefficients[12];
};

static enum status color_matrix_parse(const struct op_item *item, void *params)
{
    struct params *own = params;
    double values[12];
    bool given;
    enum status status = op_matrix(item, "matrix", 3, 4, values, &given);
    if (!status && !given)
        return error_set(item->error, STATUS_BAD_OP, "%s: matrix is missing", item->place);
    for (int i = 0; i < 12 && !status; i++) {
        int bound = i % 4 == 3 ? POINT_OFFSET_MAX : POINT_COEFFICIENT_MAX;
        if (!(values[i] >= -bound && values[i] <= bound))
            return error_set(item->error, STATUS_BAD_OP,
                             "%s: matrix[%d][%d] is %.10g; it must be -%d to %d", item->place,
                             i / 4, i % 4, values[i], bound, bound);
        own->coefficients[i] = (int32_t)floor(values[i] * 65536.0 + 0.5);
    }
    return status;
}

static enum status color_matrix_step(const struct op_item *item, const void *params,
                                     struct chain *chain)
{
    const struct params *own = params;
    (void)item;
    point_add_matrix(chain, own->coefficients);
    return STATUS_OK;
}

static const char *const names[] = {"matrix", NULL};
const struct op op_color_matrix = {"color_matrix", names, color_matrix_parse, color_matrix_step,
                                   NULL};
