/* threshold.c - the threshold operation: gray above a value becomes 255, else 0, or the reverse. */
#include "gpu/ops/point.h"
#include "gpu/plan/op.h"

struct params {
    int value;
    bool invert;
};

static const struct op_param threshold_params[] = {
    {OP_INTEGER(struct params, value), .max = 255, .standard = 127},
    {OP_BOOLEAN(struct params, invert), .help = "true exchanges 255 and 0"},
    {.name = NULL}};

static enum status threshold_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
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
    .flags = OP_STARTS_GRAY | OP_POINT,
    .params = threshold_params,
    .step = threshold_step,
};
