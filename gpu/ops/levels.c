/*
 * levels.c - stretches in_black..in_white to out_black..out_white, bent by a gamma.
 *
 *     k = min(max(v, in_black), in_white) - in_black,  n = in_white - in_black
 *     out_black + (out_white - out_black) (k / n)^(1 / gamma), round half up
 *
 * In double; without a gamma, k is multiplied before it is divided, so that a half is a half.
 * out_black may be above out_white: the result is then inverted.
 */
#include <math.h>

#include "gpu/ops/point.h"
#include "gpu/plan/op.h"

struct params {
    int64_t in_black, in_white, out_black, out_white;
    double gamma;
};

static enum status levels_parse(const struct op_item *item, void *params)
{
    struct params *own = params;
    *own = (struct params){0, 255, 0, 255, 1.0};
    const struct {
        const char *name;
        int64_t *value;
    } levels[] = {{"in_black", &own->in_black},
                  {"in_white", &own->in_white},
                  {"out_black", &own->out_black},
                  {"out_white", &own->out_white}};
    enum status status = op_number(item, "gamma", POINT_GAMMA_MIN, POINT_GAMMA_MAX, &own->gamma);
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]) && !status; i++)
        status = op_integer(item, levels[i].name, 0, 255, levels[i].value);
    if (!status && own->in_black >= own->in_white)
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: in_black is %lld; it must be below in_white, %lld", item->place,
                         (long long)own->in_black, (long long)own->in_white);
    return status;
}

static uint8_t level(const struct params *own, int64_t v)
{
    int64_t inside = v < own->in_black ? own->in_black : v > own->in_white ? own->in_white : v;
    double k = (double)(inside - own->in_black), n = (double)(own->in_white - own->in_black);
    double range = (double)(own->out_white - own->out_black);
    double part = own->gamma == 1.0 ? k * range / n : range * pow(k / n, 1.0 / own->gamma);
    return (uint8_t)floor((double)own->out_black + part + 0.5);
}

static enum status levels_step(const struct op_item *item, const void *params, struct chain *chain)
{
    const struct params *own = params;
    uint8_t table[256];
    (void)item;
    for (int v = 0; v < 256; v++)
        table[v] = level(own, v);
    point_add_table(chain, table);
    return STATUS_OK;
}

static const char *const names[] = {"in_black", "in_white", "gamma",
                                    "out_black", "out_white", NULL};
const struct op op_levels = {"levels", names, levels_parse, levels_step, NULL};
