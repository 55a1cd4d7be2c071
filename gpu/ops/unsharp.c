/* unsharp.c - the unsharp operation: an unsharp mask, as a pass of gaussian.h. */
#include <math.h>

#include "gpu/ops/gaussian.h"
#include "gpu/plan/op.h"

struct params {
    int ksize;
    double sigma, amount;
};

static const struct op_param unsharp_params[] = {
    {OP_NUMBER(struct params, amount), .max = 16, .standard = 1},
    GAUSSIAN_PARAMS(struct params),
    {.name = NULL}};

static enum status unsharp_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
    struct gaussian gaussian;
    if (!gaussian_make(&gaussian, own->ksize, own->sigma))
        return STATUS_OK;
    gaussian.sharpen = true;
    gaussian.amount256 = (int)floor(own->amount * 256 + 0.5);
    gaussian_append(chain, &gaussian);
    return STATUS_OK;
}

const struct op op_unsharp = {
    .name = "unsharp",
    .help = "Sharpens with an unsharp mask: v + amount (v - gaussian)",
    .definition = "v + ((A (v - g) + 128) >> 8), clamped to 0..255, with g the result of "
                  "`gaussian` and A = floor(256 amount + 1/2). Colours are processed "
                  "independently; alpha is kept.",
    .params = unsharp_params,
    .step = unsharp_step,
};
