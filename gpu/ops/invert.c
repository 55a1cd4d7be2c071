/* invert.c - the invert operation: 255 - v. */
#include "gpu/ops/point.h"
#include "gpu/plan/op.h"

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
