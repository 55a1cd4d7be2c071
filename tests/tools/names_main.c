/*
 * names - what jobs and results may name, a line each, for a comparison with the manual pages:
 *
 *     op NAME
 *     parameter OP NAME
 *     code NAME [retried]
 */
#include <stdio.h>

#include "conf/status.h"
#include "gpu/plan/op.h"

static void print_op(const struct op *op)
{
    printf("op %s\n", op->name);
    for (const char *const *name = op->parameters; *name; name++)
        printf("parameter %s %s\n", op->name, *name);
}

int main(void)
{
#define X(name) print_op(&op_##name);
    OP_TABLE(X)
#undef X
    for (int status = STATUS_OK + 1; status < STATUS_COUNT; status++)
        printf("code %s%s\n", status_name((enum status)status),
               status_retryable((enum status)status) ? " retried" : "");
    return 0;
}
