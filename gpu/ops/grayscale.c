/* grayscale.c - converts images to gray, and flattens RGBA to RGB, on the CPU. */
#include "gpu/ops/grayscale.h"

#include <string.h>

#include "gpu/plan/chain.h"

VECTOR_CLONES
static void grayscale_row_rgb(const uint8_t *restrict from, uint8_t *restrict to, uint32_t width,
                              uint32_t r, uint32_t g, uint32_t b)
{
    for (size_t x = 0; x < width; x++)
        to[x] = (uint8_t)grayscale_rgb(from[3 * x], from[3 * x + 1], from[3 * x + 2], r, g, b);
}

VECTOR_CLONES
static void grayscale_row_rgba(const uint8_t *restrict from, uint8_t *restrict to, uint32_t width,
                               uint32_t r, uint32_t g, uint32_t b, uint32_t under_r,
                               uint32_t under_g, uint32_t under_b)
{
    for (size_t x = 0; x < width; x++) {
        uint32_t alpha = from[4 * x + 3];
        to[x] = (uint8_t)grayscale_rgb(flatten_byte(from[4 * x + 0], alpha, under_r),
                                       flatten_byte(from[4 * x + 1], alpha, under_g),
                                       flatten_byte(from[4 * x + 2], alpha, under_b), r, g, b);
    }
}

void grayscale_row(const uint8_t *from, uint8_t *to, uint32_t width, uint32_t channels,
                   const struct grayscale *gray)
{
    const uint8_t *under = gray->background;
    if (channels == 1)
        memcpy(to, from, width);
    else if (channels == 3)
        grayscale_row_rgb(from, to, width, gray->r, gray->g, gray->b);
    else
        grayscale_row_rgba(from, to, width, gray->r, gray->g, gray->b, under[0], under[1],
                           under[2]);
}

PASS_LOOP(grayscale_cpu)
{
    const struct grayscale *gray = (const struct grayscale *)pass->params;
    for (uint32_t y = 0; y < from->height; y++)
        grayscale_row(from->pixels + y * from->stride, to->pixels + y * to->stride, from->width,
                      from->channels, gray);
}

pass_cuda grayscale_cuda;

const struct pass_type pass_grayscale = {"grayscale", grayscale_cpu, PASS_CUDA(grayscale_cuda)};

struct grayscale grayscale_default(const uint8_t *background)
{
    return (struct grayscale){19595, 38470, 7471, {background[0], background[1], background[2]}, 0};
}

/* ---- flattening ---- */

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

PASS_LOOP(flatten_cpu)
{
    const struct flatten *flatten = (const struct flatten *)pass->params;
    for (uint32_t y = 0; y < from->height; y++)
        flatten_row(from->pixels + y * from->stride, to->pixels + y * to->stride, from->width,
                    flatten->background[0], flatten->background[1], flatten->background[2]);
}

pass_cuda flatten_cuda;

static const struct pass_type pass_flatten = {"flatten", flatten_cpu, PASS_CUDA(flatten_cuda)};

void step_flatten(struct chain *chain)
{
    struct flatten flatten = {{chain->background[0], chain->background[1], chain->background[2]}};
    struct pass_shape to = {chain->shape.width, chain->shape.height, 3};
    assert(chain->shape.channels == 4);
    chain_add(chain, &pass_flatten, to, &flatten, sizeof(flatten));
}
