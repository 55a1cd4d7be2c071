/*
 * gamma.c - the gamma operation: 255 (v / 255)^(1 / gamma), round half up.
 *
 * The host computes the table once, in double. Both engines use this table, so the precision of the
 * C library's pow cannot make them differ.
 */
#include <math.h>

#include "gpu/ops/point.h"
#include "gpu/plan/op.h"

struct params {
    double gamma;
};

static const struct op_param gamma_params[] = {
    {OP_NUMBER(struct params, gamma), .need = OP_REQUIRED, .min = POINT_GAMMA_MIN,
     .max = POINT_GAMMA_MAX, .help = "Above 1 makes the image brighter"},
    {.name = NULL}};

static enum status gamma_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
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
    .params = gamma_params,
    .step = gamma_step,
};
