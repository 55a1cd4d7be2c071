/* sobel.c - edges: the operation, and its loops on the CPU. */
#include "gpu/ops/sobel.h"

#include <string.h>

#include "gpu/op.h"
#include "gpu/ops/point.h"

/* ---- the CPU's loops ---- */

PIXEL int sobel_length(int gx, int gy, enum sobel_magnitude magnitude)
{
    if (magnitude == SOBEL_L2)
        return sobel_root(gx * gx + gy * gy);
    int sum = sobel_sum(gx, gy) >> (magnitude == SOBEL_HALF);
    return sum > 255 ? 255 : sum;
}

/* The loops leave out the first and the last column. 16 bits hold every step of the sums, and
 * double the lanes. */
VECTOR_CLONES
static void sobel_row_sum(const uint8_t *restrict a, const uint8_t *restrict m,
                          const uint8_t *restrict b, uint8_t *restrict to, size_t width, int shift)
{
    for (size_t x = 1; x + 1 < width; x++) {
        int16_t gx = (int16_t)sobel_gx(a, m, b, x - 1, x + 1);
        int16_t gy = (int16_t)sobel_gy(a, b, x - 1, x, x + 1);
        int16_t sum = (int16_t)((int16_t)sobel_sum(gx, gy) >> shift);
        to[x] = (uint8_t)(sum > 255 ? 255 : sum);
    }
}

VECTOR_CLONES
static void sobel_row_l2(const uint8_t *restrict a, const uint8_t *restrict m,
                         const uint8_t *restrict b, uint8_t *restrict to, size_t width)
{
    for (size_t x = 1; x + 1 < width; x++) {
        int gx = sobel_gx(a, m, b, x - 1, x + 1);
        int gy = sobel_gy(a, b, x - 1, x, x + 1);
        to[x] = (uint8_t)sobel_root(gx * gx + gy * gy);
    }
}

static uint8_t sobel_edge(const uint8_t *a, const uint8_t *m, const uint8_t *b, int x, int width,
                          const struct sobel *sobel)
{
    size_t left = (size_t)sobel_inside(x - 1, width, sobel->border);
    size_t right = (size_t)sobel_inside(x + 1, width, sobel->border);
    int gx = sobel_gx(a, m, b, left, right);
    int gy = sobel_gy(a, b, left, (size_t)x, right);
    return (uint8_t)sobel_length(gx, gy, sobel->magnitude);
}

static void sobel_row(const uint8_t *a, const uint8_t *m, const uint8_t *b, uint8_t *to, int width,
                      const struct sobel *sobel)
{
    if (sobel->magnitude == SOBEL_L2)
        sobel_row_l2(a, m, b, to, (size_t)width);
    else
        sobel_row_sum(a, m, b, to, (size_t)width, sobel->magnitude == SOBEL_HALF);
    bool zero = sobel->border == SOBEL_ZERO;
    to[0] = zero ? 0 : sobel_edge(a, m, b, 0, width, sobel);
    to[width - 1] = zero ? 0 : sobel_edge(a, m, b, width - 1, width, sobel);
}

/* The gray row at `y`: the source itself, or one of three rows that go round in `ring`; the rows
 * before it have been made already. */
static const uint8_t *gray_row(const struct image *from, int y, int *made, uint8_t *ring,
                               size_t ring_stride, const struct sobel *sobel)
{
    const uint8_t *source = from->pixels + (size_t)y * from->stride;
    if (!sobel->intake.makes_gray && !sobel->intake.looks_up)
        return source;
    uint8_t *row = ring + (size_t)(y % 3) * ring_stride;
    if (*made < y) {
        intake_row(&sobel->intake, source, row, from->width, from->channels);
        *made = y;
    }
    return row;
}

static void sobel_cpu(const struct pass *pass, const struct image *from, const struct image *to,
                      uint8_t *work)
{
    const struct sobel *sobel = (const struct sobel *)pass->params;
    int width = (int)from->width, height = (int)from->height, made = -1;
    size_t ring_stride = image_stride(from->width, 1);
    for (int y = 0; y < height && !pass_is_late_at(pass, (uint32_t)y); y++) {
        /* In order of need: a row that is made takes the place of the one three before it. */
        int above = sobel_inside(y - 1, height, sobel->border);
        int below = sobel_inside(y + 1, height, sobel->border);
        uint8_t *row = to->pixels + (size_t)y * to->stride;
        const uint8_t *m = gray_row(from, y, &made, work, ring_stride, sobel);
        const uint8_t *b = gray_row(from, below, &made, work, ring_stride, sobel);
        const uint8_t *a = gray_row(from, above, &made, work, ring_stride, sobel);
        if (sobel->border == SOBEL_ZERO && (y == 0 || y == height - 1))
            memset(row, 0, (size_t)width);
        else
            sobel_row(a, m, b, row, width, sobel);
    }
}

/* Without and with a table; it makes its gray in either. */
static const struct pass_type types[] = {{"sobel", sobel_cpu, PASS_CUDA(sobel_cuda)},
                                         {"table+sobel", sobel_cpu, PASS_CUDA(sobel_cuda)}};

/* ---- the operation ---- */

struct params {
    int magnitude, border;
};

static enum status sobel_parse(const struct op_item *item, void *params)
{
    static const char *const magnitudes[] = {"half", "l1", "l2", NULL};
    static const char *const borders[] = {"reflect101", "replicate", "zero", NULL};
    struct params *own = params;
    own->magnitude = SOBEL_HALF;
    own->border = SOBEL_REFLECT101;
    enum status status = op_word(item, "magnitude", magnitudes, &own->magnitude);
    return status ? status : op_word(item, "border", borders, &own->border);
}

static enum status sobel_step(const struct op_item *item, const void *params, struct chain *chain)
{
    const struct params *own = params;
    struct sobel sobel;
    (void)item;
    memset(&sobel, 0, sizeof(sobel));
    sobel.magnitude = (enum sobel_magnitude)own->magnitude;
    sobel.border = (enum sobel_border)own->border;
    /* Behind a table of colours gray is made with it, and what lies between the passes is gray. */
    struct grayscale gray = grayscale_default(chain->background);
    point_add_gray(chain, &gray);
    const struct pass_shape to = point_lift(chain, &sobel.intake);
    bool makes_rows = sobel.intake.makes_gray || sobel.intake.looks_up;
    struct pass *pass = chain_add(chain, &types[sobel.intake.looks_up], to, &sobel, sizeof(sobel));
    pass->work_bytes = makes_rows ? 3 * image_stride(to.width, 1) : 0;
    return STATUS_OK;
}

static const char *const names[] = {"magnitude", "border", NULL};
const struct op op_sobel = {"sobel", names, sobel_parse, sobel_step, op_always_gray};
