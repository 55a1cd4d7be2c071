/* transpose.c - the transpose operation: swaps rows and columns. */
#include "gpu/ops/orient.h"
#include "gpu/plan/op.h"
#include "gpu/plan/steps.h"

static enum status transpose_step(const void *params, struct chain *chain)
{
    (void)params;
    step_orient(chain, ORIENT_TRANSPOSED);
    return STATUS_OK;
}

const struct op op_transpose = {
    .name = "transpose",
    .help = "Exchanges rows and columns",
    .definition = "The pixel (x, y) is the source's (y, x). As OpenCV's `transpose` and Pillow's "
                  "`TRANSPOSE`.",
    .flags = OP_MOVES,
    .step = transpose_step,
};
