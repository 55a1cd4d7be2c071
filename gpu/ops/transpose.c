/* transpose.c - rows become columns: the operation. */
#include "gpu/op.h"
#include "gpu/ops/orient.h"

static enum status transpose_parse(const struct op_item *item, void *params)
{
    (void)item, (void)params;
    return STATUS_OK;
}

static enum status transpose_step(const struct op_item *item, const void *params,
                                  struct chain *chain)
{
    (void)item, (void)params;
    orient_step(chain, ORIENT_TRANSPOSED);
    return STATUS_OK;
}

static const char *const names[] = {NULL};
const struct op op_transpose = {"transpose", names, transpose_parse, transpose_step, NULL};
