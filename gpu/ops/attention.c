/* attention.c - the pass of attention.h on the CPU: finds the window with the most edges, and
 * copies it. */
#include "gpu/ops/attention.h"

#include <string.h>

/* Columns whose gray is kept in the L1 cache. */
#define COLUMNS 512

/* The columns x0 to x0 + count - 1 of the image, with their energy. */
struct tile {
    const struct image *from;
    const struct grayscale *gray;
    uint32_t x0, count;
    uint32_t made;                /* rows that have been converted */
    uint8_t rows[3][COLUMNS + 2]; /* gray of the last three rows, with a column on either side */
    uint32_t sums[COLUMNS];       /* energy of the columns */
};

/* Returns the gray of row y, and converts it first if needed. It starts at column x0 - 1. */
static const uint8_t *tile_row(struct tile *tile, int y)
{
    const struct image *from = tile->from;
    uint32_t x0 = tile->x0, first = x0 > 0 ? x0 - 1 : 0, end = x0 + tile->count;
    uint32_t count = end - first + (end < from->width);
    for (; (int)tile->made <= y; tile->made++) {
        uint8_t *row = tile->rows[tile->made % 3] + 1;
        grayscale_row(from->pixels + tile->made * from->stride + (size_t)first * from->channels,
                      row - (x0 - first), count, from->channels, tile->gray);
        if (x0 == 0)
            row[-1] = row[from->width > 1 ? 1 : 0];
        if (end == from->width)
            row[tile->count] = row[from->width > 1 ? (int)tile->count - 2 : 0];
    }
    return tile->rows[y % 3];
}

/* Adds the energy of a row's pixels to the sums of their columns. Returns the energy of the row. */
VECTOR_CLONES
static uint32_t add_row(const uint8_t *restrict a, const uint8_t *restrict m,
                        const uint8_t *restrict b, uint32_t count, uint32_t *restrict sums)
{
    uint32_t total = 0; /* uncovered: machine */
    for (uint32_t x = 0; x < count; x++) {
        uint32_t energy = attention_energy(a, m, b, x, x + 1, x + 2);
        sums[x] += energy;
        total += energy;
    }
    return total;
}

/* Adds the energy of `count` columns from x0 on to the sums of the lines. */
static void add_tile(const struct pass *pass, const struct image *from, uint32_t x0, uint32_t count,
                     uint64_t *sums)
{
    const struct attention *own = (const struct attention *)pass->params;
    struct tile tile = {.from = from, .gray = &own->gray, .x0 = x0, .count = count};
    int height = (int)from->height;
    for (int y = 0; y < height && !pass_is_late_at(pass, (uint32_t)y); y++) {
        const uint8_t *below = tile_row(&tile, sobel_inside(y + 1, height, BORDER_REFLECT101));
        const uint8_t *middle = tile_row(&tile, y);
        const uint8_t *above = tile_row(&tile, sobel_inside(y - 1, height, BORDER_REFLECT101));
        uint32_t total = add_row(above, middle, below, count, tile.sums);
        if (own->down)
            sums[y] += total;
    }
    for (uint32_t x = 0; x < count && !own->down; x++)
        sums[x0 + x] = tile.sums[x];
}

static uint32_t best_start(const uint64_t *sums, uint32_t length, uint32_t window)
{
    struct attention_place best = {0, 0}, place = {0, 0};
    for (uint32_t k = 0; k < window; k++)
        place.energy += sums[k];
    for (best = place; place.start + window < length;) {
        place.energy += sums[place.start + window] - sums[place.start];
        place.start++;
        if (attention_better(&place, &best, length - window))
            best = place;
    }
    return best.start;
}

PASS_LOOP(attention_cpu)
{
    const struct attention *own = (const struct attention *)pass->params;
    struct attention_work *out = (struct attention_work *)work;
    uint32_t length = own->down ? from->height : from->width;
    memset(out, 0, pass->work_bytes);
    for (uint32_t x = 0; x < from->width; x += COLUMNS)
        add_tile(pass, from, x, from->width - x < COLUMNS ? from->width - x : COLUMNS, out->sums);
    out->start = best_start(out->sums, length, own->down ? to->height : to->width);
    const uint8_t *start = from->pixels + out->start * (own->down ? from->stride : from->channels);
    for (size_t y = 0; y < to->height; y++)
        memcpy(to->pixels + y * to->stride, start + y * from->stride,
               (size_t)to->width * to->channels);
}

pass_cuda_many attention_cuda;

static const struct pass_type pass_attention = {"attention", attention_cpu,
                                                PASS_CUDA_MANY(attention_cuda, 0)};

/* Returns the window's rectangle in the image before it was resized. */
static cJSON *attention_values(const struct pass *pass, const uint8_t *work)
{
    const struct attention *own = (const struct attention *)pass->params;
    uint64_t full = own->down ? own->full_height : own->full_width;
    uint64_t length = own->down ? pass->from.height : pass->from.width;
    uint64_t start = ((const struct attention_work *)work)->start;
    int window = (int)own->full_window;
    start = (2 * start * full + length) / (2 * length);
    start = start < full - own->full_window ? start : full - own->full_window;
    const int rectangle[] = {own->down ? 0 : (int)start, own->down ? (int)start : 0,
                             own->down ? (int)own->full_width : window,
                             own->down ? window : (int)own->full_height};
    return cJSON_CreateIntArray(rectangle, 4);
}

void attention_add(struct chain *chain, uint32_t width, uint32_t height,
                   const struct attention *attention)
{
    assert(width <= chain->shape.width && height <= chain->shape.height);
    assert(width == chain->shape.width || height == chain->shape.height);
    struct pass_shape to = {width, height, chain->shape.channels};
    size_t lines = attention->down ? chain->shape.height : chain->shape.width;
    struct pass *pass =
        chain_append(chain, &pass_attention, to, attention, sizeof(*attention));
    pass->work_bytes = sizeof(struct attention_work) + (lines + 1) * sizeof(uint64_t);
    pass->values = attention_values;
}
