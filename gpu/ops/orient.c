/* orient.c - mirrors and rotations: fusing them into one pass, and the CPU loops. */
#include "gpu/ops/orient.h"

#include <string.h>

#include "gpu/plan/steps.h"

/* Pixels per side of a block of a transposition. Source and destination fit in the L1 cache. */
#define BLOCK 32

PIXEL void copy_run(const uint8_t *from, ptrdiff_t step, uint8_t *to, uint32_t count,
                    uint32_t channels)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t c = 0; c < channels; c++)
            to[(size_t)i * channels + c] = from[(ptrdiff_t)i * step + c];
}

/* Copies `count` pixels that are `step` bytes apart to adjacent places. The number of channels is a
 * compile-time constant in each case, for speed. */
static void gather(const uint8_t *from, ptrdiff_t step, uint8_t *to, uint32_t count,
                   uint32_t channels)
{
    if (channels == 1)
        copy_run(from, step, to, count, 1);
    else if (channels == 3)
        copy_run(from, step, to, count, 3);
    else
        copy_run(from, step, to, count, 4);
}

static void orient_rows(const struct pass *pass, const struct image *from, const struct image *to)
{
    const struct orient *orient = (const struct orient *)pass->params;
    uint32_t channels = from->channels;
    size_t row_bytes = (size_t)from->width * channels;
    for (uint32_t y = 0; y < to->height && !pass_is_late_at(pass, y); y++) {
        uint32_t source_y = orient->flip_y ? from->height - 1 - y : y;
        const uint8_t *source = from->pixels + source_y * from->stride;
        uint8_t *row = to->pixels + y * to->stride;
        if (orient->flip_x)
            gather(source + row_bytes - channels, -(ptrdiff_t)channels, row, to->width, channels);
        else
            memcpy(row, source, row_bytes);
    }
}

static void orient_swapped(const struct pass *pass, const struct image *from,
                           const struct image *to)
{
    const struct orient *orient = (const struct orient *)pass->params;
    uint32_t channels = from->channels;
    ptrdiff_t step = orient->flip_y ? -(ptrdiff_t)from->stride : (ptrdiff_t)from->stride;
    for (uint32_t block_y = 0; block_y < to->height && !pass_is_late(pass); block_y += BLOCK) {
        uint32_t y_end = to->height - block_y < BLOCK ? to->height : block_y + BLOCK;
        for (uint32_t x = 0; x < to->width; x += BLOCK) {
            uint32_t count = to->width - x < BLOCK ? to->width - x : BLOCK;
            uint32_t source_y = orient->flip_y ? from->height - 1 - x : x;
            for (uint32_t y = block_y; y < y_end; y++) {
                uint32_t source_x = orient->flip_x ? from->width - 1 - y : y;
                gather(from->pixels + source_y * from->stride + (size_t)source_x * channels, step,
                       to->pixels + y * to->stride + (size_t)x * channels, count, channels);
            }
        }
    }
}

static void orient_cpu(const struct pass *pass, const struct image *from, const struct image *to,
                       uint8_t *work)
{
    const struct orient *orient = (const struct orient *)pass->params;
    (void)work;
    if (orient->swap)
        orient_swapped(pass, from, to);
    else
        orient_rows(pass, from, to);
}

pass_cuda orient_cuda;

const struct pass_type pass_orient = {"orient", orient_cpu, PASS_CUDA(orient_cuda)};

static void append(struct chain *chain, const struct orient *orient)
{
    struct pass_shape to = chain->shape;
    if (orient->swap) {
        to.width = chain->shape.height;
        to.height = chain->shape.width;
    }
    chain_append(chain, &pass_orient, to, orient, sizeof(*orient));
}

static void orient_add(struct chain *chain, const struct orient *orient)
{
    struct orient map = *orient;
    const struct pass *last = chain_last(chain, &pass_orient);
    if (last) {
        /* If the last pass swaps the axes, the outer column is the inner row. */
        struct orient inner = *(const struct orient *)last->params;
        map.swap = inner.swap ^ orient->swap;
        map.flip_x = inner.flip_x ^ (inner.swap ? orient->flip_y : orient->flip_x);
        map.flip_y = inner.flip_y ^ (inner.swap ? orient->flip_x : orient->flip_y);
        chain_drop(chain);
    }
    if (map.swap || map.flip_x || map.flip_y)
        append(chain, &map);
}

void step_copy(struct chain *chain)
{
    static const struct orient same = {0, 0, 0};
    append(chain, &same);
}

/* Maps a rectangle of the result, with corner (x, y), to the rectangle of the source that it comes
 * from. */
static void orient_origin(const struct orient *orient, struct pass_shape source, uint32_t *x,
                          uint32_t *y, struct pass_shape *rectangle)
{
    uint32_t across = orient->swap ? *y : *x, down = orient->swap ? *x : *y;
    struct pass_shape own = *rectangle;
    if (orient->swap) {
        rectangle->width = own.height;
        rectangle->height = own.width;
    }
    *x = orient->flip_x ? source.width - across - rectangle->width : across;
    *y = orient->flip_y ? source.height - down - rectangle->height : down;
}

/* A crop after a mirror or rotation is moved before it, so that the pass reads less. */
void orient_crop(struct chain *chain, uint32_t x, uint32_t y, uint32_t width, uint32_t height)
{
    assert(width >= 1 && height >= 1);
    assert(x + width <= chain->shape.width && y + height <= chain->shape.height);
    struct orient orient = {0, 0, 0};
    const struct pass *last = chain_last(chain, &pass_orient);
    if (last) {
        struct pass_shape rectangle = {width, height, 0};
        orient = *(const struct orient *)last->params;
        orient_origin(&orient, last->from, &x, &y, &rectangle);
        chain_drop(chain);
        width = rectangle.width;
        height = rectangle.height;
    }
    chain->window.x += x;
    chain->window.y += y;
    chain->shape.width = width;
    chain->shape.height = height;
    orient_add(chain, &orient);
}

void step_orient(struct chain *chain, int orientation)
{
    static const struct orient table[ORIENTATION_MAX + 1] = {
        [2] = {0, 1, 0}, [3] = {0, 1, 1}, [4] = {0, 0, 1}, [5] = {1, 0, 0},
        [6] = {1, 0, 1}, [7] = {1, 1, 1}, [8] = {1, 1, 0},
    };
    if (orientation > 1 && orientation <= ORIENTATION_MAX)
        orient_add(chain, &table[orientation]);
}
