/* gray_table.c - count, compute a table, look up: the CPU version. */
#include "gpu/ops/gray_table.h"

#include <string.h>

#include "gpu/ops/point.h"

static void look_up_row(const uint8_t *from, uint8_t *to, size_t width, const uint8_t *table)
{
    for (size_t x = 0; x < width; x++)
        to[x] = table[from[x]];
}

void gray_table_run(const struct pass *pass, const struct image *from, const struct image *to,
                    uint8_t *work, gray_table_make *make)
{
    struct gray_table *table = (struct gray_table *)work;
    const struct image *gray = from->channels == 1 ? from : to;
    histogram_count(from, (const struct histogram *)pass->params, to, table->counts);
    make(table, from->width * from->height);
    for (uint32_t y = 0; y < to->height; y++)
        look_up_row(gray->pixels + y * gray->stride, to->pixels + y * to->stride, to->width,
                    table->table);
}

void gray_table_step(struct chain *chain, const struct pass_type *type, pass_values *values)
{
    struct histogram histogram;
    memset(&histogram, 0, sizeof(histogram));
    histogram.of_gray = true;
    histogram.gray = grayscale_default(chain->background);
    if (point_takes_gray(chain))
        point_add_gray(chain, &histogram.gray); /* one channel between the passes instead of
                                                   three */
    const struct pass *gray = chain_last(chain, &pass_grayscale);
    if (gray) {
        memcpy(&histogram.gray, gray->params, sizeof(histogram.gray));
        chain_drop(chain);
    }
    struct pass_shape to = {chain->shape.width, chain->shape.height, 1};
    struct pass *pass = chain_add(chain, type, to, &histogram, sizeof(histogram));
    pass->work_bytes = sizeof(struct gray_table);
    pass->values = values;
}
