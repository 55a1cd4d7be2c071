/* flatten.c - flattens RGBA to RGB on the CPU. */
#include "gpu/ops/flatten.h"

#include "gpu/plan/chain.h"

VECTOR_CLONES
static void flatten_row(const uint8_t *restrict from, uint8_t *restrict to, uint32_t width,
                        uint32_t r, uint32_t g, uint32_t b)
{
    for (uint32_t x = 0; x < width; x++) {
        uint32_t alpha = from[4 * x + 3];
        to[3 * x + 0] = (uint8_t)flatten_byte(from[4 * x + 0], alpha, r);
        to[3 * x + 1] = (uint8_t)flatten_byte(from[4 * x + 1], alpha, g);
        to[3 * x + 2] = (uint8_t)flatten_byte(from[4 * x + 2], alpha, b);
    }
}

static void flatten_cpu(const struct pass *pass, const struct image *from, const struct image *to,
                        uint8_t *work)
{
    const struct flatten *flatten = (const struct flatten *)pass->params;
    (void)work;
    for (uint32_t y = 0; y < from->height; y++)
        flatten_row(from->pixels + y * from->stride, to->pixels + y * to->stride, from->width,
                    flatten->background[0], flatten->background[1], flatten->background[2]);
}

pass_cuda flatten_cuda;

const struct pass_type pass_flatten = {"flatten", flatten_cpu, PASS_CUDA(flatten_cuda)};

void step_flatten(struct chain *chain)
{
    struct flatten flatten = {
        {chain->background[0], chain->background[1], chain->background[2]}};
    struct pass_shape to = {chain->shape.width, chain->shape.height, 3};
    assert(chain->shape.channels == 4);
    chain_add(chain, &pass_flatten, to, &flatten, sizeof(flatten));
}
