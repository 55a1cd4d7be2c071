/*
 * gamma.c - 255 (v / 255)^(1 / gamma), round half up.
 *
 * Computed here once, in double, so that whatever the C library's pow gives is what both engines
 * have.
 */
#include <math.h>

#include "gpu/ops/point.h"
#include "gpu/plan/op.h"

struct params {
    double gamma;
};

static enum status gamma_parse(const struct op_item *item, void *params)
{
    struct params *own = params;
    enum status status = op_number(item, "gamma", POINT_GAMMA_MIN, POINT_GAMMA_MAX, &own->gamma);
    if (!status && own->gamma == 0)
        return error_set(item->error, STATUS_BAD_OP, "%s: gamma is missing", item->place);
    return status;
}

static enum status gamma_step(const struct op_item *item, const void *params, struct chain *chain)
{
    const struct params *own = params;
    uint8_t table[256];
    (void)item;
    for (int v = 0; v < 256; v++)
        table[v] = (uint8_t)floor(255.0 * pow(v / 255.0, 1.0 / own->gamma) + 0.5);
    point_add_table(chain, table);
    return STATUS_OK;
}

static const char *const names[] = {"gamma", NULL};
const struct op op_gamma = {"gamma", names, gamma_parse, gamma_step, NULL};
