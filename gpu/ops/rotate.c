/* rotate.c - turns by quarters: the operation. */
#include <math.h>

#include "gpu/ops/orient.h"
#include "gpu/plan/op.h"

struct params {
    int angle;
    bool clockwise;
};

static enum status rotate_parse(const struct op_item *item, void *params)
{
    struct params *own = params;
    *own = (struct params){90, true};
    double angle = 90;
    enum status status = op_number(item, "angle", -INFINITY, INFINITY, &angle);
    if (status)
        return status;
    if (angle != 90 && angle != 180 && angle != 270)
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: angle is %.10g; it must be 90, 180 or 270", item->place, angle);
    own->angle = (int)angle;
    return op_boolean(item, "clockwise", &own->clockwise);
}

static enum status rotate_step(const struct op_item *item, const void *params,
                               struct chain *chain)
{
    static const int turns[] = {ORIENT_NONE, ORIENT_TURNED_90, ORIENT_TURNED_180,
                                ORIENT_TURNED_270};
    const struct params *own = params;
    int quarters = own->angle / 90;
    (void)item;
    orient_step(chain, turns[own->clockwise ? quarters : 4 - quarters]);
    return STATUS_OK;
}

static const char *const names[] = {"angle", "clockwise", NULL};
const struct op op_rotate = {"rotate", names, rotate_parse, rotate_step, NULL};
