/* flip.c - mirrors: the operation. */
#include "gpu/ops/orient.h"
#include "gpu/plan/op.h"

struct params {
    int axis; /* an index of axes */
};

static enum status flip_parse(const struct op_item *item, void *params)
{
    static const char *const axes[] = {"horizontal", "vertical", NULL};
    struct params *own = params;
    own->axis = 0;
    return op_word(item, "axis", axes, &own->axis);
}

static enum status flip_step(const struct op_item *item, const void *params, struct chain *chain)
{
    const struct params *own = params;
    (void)item;
    orient_step(chain, own->axis == 0 ? ORIENT_MIRRORED : ORIENT_UPSIDE_DOWN);
    return STATUS_OK;
}

static const char *const names[] = {"axis", NULL};
const struct op op_flip = {"flip", names, flip_parse, flip_step, NULL};
