/*
 * levels.c - the levels operation: maps in_black..in_white to out_black..out_white, with a gamma.
 *
 * Computed in double. Without a gamma, the product is computed before the division, so that halves
 * are exact.
 */
#include <math.h>

#include "gpu/ops/point.h"
#include "gpu/plan/op.h"

struct params {
    int in_black, in_white, out_black, out_white;
    double gamma;
};

static const struct op_param levels_params[] = {
    {OP_INTEGER(struct params, in_black), .max = 255, .help = "Must be below `in_white`"},
    {OP_INTEGER(struct params, in_white), .max = 255, .standard = 255},
    {OP_NUMBER(struct params, gamma), .min = POINT_GAMMA_MIN, .max = POINT_GAMMA_MAX,
     .standard = 1, .help = "Above 1 makes the image brighter"},
    {OP_INTEGER(struct params, out_black), .max = 255,
     .help = "If it is above `out_white`, the image is inverted"},
    {OP_INTEGER(struct params, out_white), .max = 255, .standard = 255},
    {.name = NULL}};

static enum status levels_check(const struct op_item *item, void *params)
{
    const struct params *own = params;
    if (own->in_black < own->in_white)
        return STATUS_OK;
    return op_refuse(item, ": in_black is %d; it must be below in_white, %d", own->in_black,
                     own->in_white);
}

static uint8_t level(const struct params *own, int v)
{
    int inside = v < own->in_black ? own->in_black : v > own->in_white ? own->in_white : v;
    double k = (double)(inside - own->in_black), n = (double)(own->in_white - own->in_black);
    double range = (double)(own->out_white - own->out_black);
    double part = own->gamma == 1.0 ? k * range / n : range * pow(k / n, 1.0 / own->gamma);
    return (uint8_t)floor((double)own->out_black + part + 0.5);
}

static enum status levels_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
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
    .params = levels_params,
    .check = levels_check,
    .step = levels_step,
};
