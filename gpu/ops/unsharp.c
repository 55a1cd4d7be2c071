/* unsharp.c - the unsharp mask: an operation of its own, a pass of gaussian.h. */
#include <math.h>

#include "gpu/ops/gaussian.h"
#include "gpu/plan/op.h"

struct params {
    int ksize;
    double sigma, amount;
};

static enum status unsharp_parse(const struct op_item *item, void *params)
{
    struct params *own = params;
    own->amount = 1;
    enum status status = gaussian_parse_size(item, &own->ksize, &own->sigma);
    return status ? status : op_number(item, "amount", 0, 16, &own->amount);
}

static enum status unsharp_step(const struct op_item *item, const void *params,
                                struct chain *chain)
{
    const struct params *own = params;
    struct gaussian gaussian;
    (void)item;
    if (!gaussian_make(&gaussian, own->ksize, own->sigma))
        return STATUS_OK;
    gaussian.sharpen = true;
    gaussian.amount256 = (int)floor(own->amount * 256 + 0.5);
    gaussian_append(chain, &gaussian);
    return STATUS_OK;
}

static const char *const names[] = {"amount", "ksize", "sigma", NULL};
const struct op op_unsharp = {"unsharp", names, unsharp_parse, unsharp_step, NULL};
