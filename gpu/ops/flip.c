/* flip.c - the flip operation: mirrors the image. */
#include "gpu/ops/orient.h"
#include "gpu/plan/op.h"
#include "gpu/plan/steps.h"

struct params {
    int axis; /* 0: horizontal */
};

static const struct op_param flip_params[] = {
    {OP_WORD(struct params, axis),
     .words = (const char *const[]){"horizontal", "vertical", NULL},
     .help = "horizontal exchanges left and right, vertical exchanges top and bottom"},
    {.name = NULL}};

static enum status flip_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
    step_orient(chain, own->axis == 0 ? ORIENT_MIRRORED : ORIENT_UPSIDE_DOWN);
    return STATUS_OK;
}

const struct op op_flip = {
    .name = "flip",
    .help = "Mirrors left and right, or top and bottom",
    .definition = "For a source of w x h, the pixel (x, y) is the source's (w-1-x, y) for "
                  "horizontal and (x, h-1-y) for vertical. As Pillow's `FLIP_LEFT_RIGHT` and "
                  "`FLIP_TOP_BOTTOM`, and OpenCV's `flip` with 1 and 0.",
    .flags = OP_MOVES,
    .params = flip_params,
    .step = flip_step,
};
