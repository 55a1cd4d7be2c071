/* rotate.c - the rotate operation: multiples of 90 degrees. */
#include "gpu/ops/orient.h"
#include "gpu/plan/op.h"
#include "gpu/plan/steps.h"

struct params {
    int angle;
    bool clockwise;
};

static const struct op_param rotate_params[] = {
    {OP_CHOICE(struct params, angle), .standard = 90,
     .words = (const char *const[]){"90", "180", "270", NULL}},
    {OP_BOOLEAN(struct params, clockwise), .standard = true},
    {.name = NULL}};

static enum status rotate_step(const void *params, struct chain *chain)
{
    static const int turns[] = {ORIENT_NONE, ORIENT_TURNED_90, ORIENT_TURNED_180,
                                ORIENT_TURNED_270};
    const struct params *own = params;
    int quarters = own->angle / 90;
    step_orient(chain, turns[own->clockwise ? quarters : 4 - quarters]);
    return STATUS_OK;
}

const struct op op_rotate = {
    .name = "rotate",
    .help = "Rotates by 90, 180 or 270 degrees",
    .definition = "For a source of w x h, the pixel (x, y) is the source's (y, h-1-x) for 90 "
                  "clockwise, so that the left column becomes the top row; (w-1-x, h-1-y) for "
                  "180; (w-1-y, x) for 270. As OpenCV's `rotate`; Pillow's `ROTATE_90` is "
                  "`clockwise` false.",
    .flags = OP_MOVES,
    .params = rotate_params,
    .step = rotate_step,
};
