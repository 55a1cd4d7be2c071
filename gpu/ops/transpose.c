/* transpose.c - rows become columns: the operation. */
#include "gpu/ops/orient.h"
#include "gpu/plan/op.h"

static enum status transpose_step(const struct op_item *item, const void *params,
                                  struct chain *chain)
{
    (void)item, (void)params;
    orient_step(chain, ORIENT_TRANSPOSED);
    return STATUS_OK;
}

const struct op op_transpose = {"transpose", op_no_parameters, op_parse_nothing, transpose_step,
                                NULL};
