/* threshold.c - gray above a value to 255, else to 0; or the other way round. */
#include "gpu/ops/point.h"
#include "gpu/plan/op.h"

struct params {
    int64_t value;
    bool invert;
};

static enum status threshold_parse(const struct op_item *item, void *params)
{
    struct params *own = params;
    *own = (struct params){127, false};
    enum status status = op_integer(item, "value", 0, 255, &own->value);
    return status ? status : op_boolean(item, "invert", &own->invert);
}

static enum status threshold_step(const struct op_item *item, const void *params,
                                  struct chain *chain)
{
    const struct params *own = params;
    struct grayscale gray = grayscale_default(chain->background);
    uint8_t table[256];
    (void)item;
    for (int v = 0; v < 256; v++)
        table[v] = (v > own->value) != own->invert ? 255 : 0;
    point_add_gray(chain, &gray);
    point_add_table(chain, table);
    return STATUS_OK;
}

static const char *const names[] = {"value", "invert", NULL};
const struct op op_threshold = {"threshold", names, threshold_parse, threshold_step,
                                op_always_gray};
