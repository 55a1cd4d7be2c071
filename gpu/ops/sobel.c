/* sobel.c - the operation sobel, and its CPU loops. */
#include "gpu/ops/sobel.h"

#include <string.h>

#include "gpu/ops/point.h"
#include "gpu/ops/window.h"
#include "gpu/plan/op.h"

/* Columns whose sums are computed by a first loop, and used by a second one, so that they stay in
 * the L1 cache. */
#define COLUMNS 256

/* The three rows of gray from which a row of gradients is computed. */
struct rows {
    const uint8_t *above, *middle, *below;
    int width;
    enum border border;
};

/* For each column of three rows a, m, b: its smoothed value a + 2 m + b, and its difference a - b.
 * Each is used by three gradients. 16 bits are enough for all steps, so that a vector register has
 * twice as many elements as with 32 bits. */
struct sums {
    uint16_t smooth[COLUMNS + 2], change[COLUMNS + 2];
};

/* Computes the sums of the columns from - 1 to from + count. */
PIXEL void sum_columns(const struct rows *rows, int from, int count, struct sums *sums)
{
    int first = from > 0 ? from - 1 : 0;
    int last = from + count < rows->width ? from + count : rows->width - 1;
    const uint8_t *restrict a = rows->above + first, *restrict m = rows->middle + first;
    const uint8_t *restrict b = rows->below + first;
    uint16_t *restrict smooth = sums->smooth + (first - from + 1);
    uint16_t *restrict change = sums->change + (first - from + 1);
    for (int x = 0; x <= last - first; x++) {
        smooth[x] = (uint16_t)(a[x] + 2 * m[x] + b[x]);
        change[x] = (uint16_t)(a[x] - b[x]);
    }
    if (from == 0) {
        int inside = sobel_inside(-1, rows->width, rows->border);
        sums->smooth[0] = sums->smooth[inside + 1];
        sums->change[0] = sums->change[inside + 1];
    }
    if (from + count == rows->width) {
        int inside = sobel_inside(rows->width, rows->width, rows->border) - from;
        sums->smooth[count + 1] = sums->smooth[inside + 1];
        sums->change[count + 1] = sums->change[inside + 1];
    }
}

/* Computes the magnitudes of `count` columns. Callers pass `magnitude` as a compile-time constant,
 * so that the compiler can compute in 16 bits, except for SOBEL_L2. */
PIXEL void measure_columns(const struct sums *sums, uint8_t *restrict to, int count,
                           enum sobel_magnitude magnitude)
{
    const uint16_t *smooth = sums->smooth, *change = sums->change;
    for (int x = 0; x < count; x++) {
        int16_t gx = (int16_t)(uint16_t)(smooth[x] - smooth[x + 2]);
        int16_t gy = (int16_t)(uint16_t)(change[x] + 2 * change[x + 1] + change[x + 2]);
        if (magnitude == SOBEL_L2) {
            to[x] = (uint8_t)sobel_root(gx * gx + gy * gy);
        } else {
            uint16_t sum = (uint16_t)sobel_sum(gx, gy);
            sum = magnitude == SOBEL_HALF ? sum >> 1 : sum;
            to[x] = (uint8_t)(sum > 255 ? 255 : sum);
        }
    }
}

VECTOR_CLONES
static void sobel_row(const struct rows *rows, uint8_t *restrict to, enum sobel_magnitude magnitude)
{
    struct sums sums; /* uncovered: machine */
    for (int x = 0; x < rows->width; x += COLUMNS) {
        int count = rows->width - x < COLUMNS ? rows->width - x : COLUMNS;
        sum_columns(rows, x, count, &sums);
        if (magnitude == SOBEL_HALF)
            measure_columns(&sums, to + x, count, SOBEL_HALF);
        else if (magnitude == SOBEL_L1)
            measure_columns(&sums, to + x, count, SOBEL_L1);
        else
            measure_columns(&sums, to + x, count, SOBEL_L2);
    }
}

PASS_LOOP(sobel_cpu)
{
    const struct sobel *sobel = (const struct sobel *)pass->params;
    int width = (int)from->width, height = (int)from->height;
    bool zero = sobel->border == BORDER_ZERO;
    enum border border = zero ? BORDER_REPLICATE : sobel->border;
    struct window window;
    window_open(&window, from, &sobel->prologue, border, 0, 1, work);
    for (int y = 0; y < height && !pass_is_late_at(pass, (uint32_t)y); y++) {
        uint8_t *row = to->pixels + (size_t)y * to->stride;
        struct rows rows = {.width = width, .border = sobel->border};
        rows.above = window_row(&window, y, -1);
        rows.middle = window_row(&window, y, 0);
        rows.below = window_row(&window, y, 1);
        if (zero && (y == 0 || y == height - 1))
            memset(row, 0, (size_t)width);
        else
            sobel_row(&rows, row, sobel->magnitude);
        if (zero)
            row[0] = row[width - 1] = 0;
    }
}

pass_cuda_many sobel_cuda;
#define ON_CUDA PASS_CUDA_MANY(sobel_cuda, sizeof(struct sobel))

/* Without and with the prologue's table. Both make gray of colours. */
static const struct pass_type types[] = {{"sobel", sobel_cpu, ON_CUDA},
                                         {"table+sobel", sobel_cpu, ON_CUDA}};

struct params {
    int magnitude, border;
};

static const struct op_param sobel_params[] = {
    {OP_WORD(struct params, magnitude), .words = (const char *const[]){"half", "l1", "l2", NULL},
     .help = "The length of the gradient: (|Gx| + |Gy|) / 2, |Gx| + |Gy| or sqrt(Gx^2 + Gy^2)"},
    {OP_WORD(struct params, border), .words = BORDER_WORDS,
     .help = "The values of pixels outside the image; zero sets the outermost frame of the result "
             "to 0 instead"}};

_Static_assert(sizeof(struct sobel) == 2 * sizeof(int) + sizeof(struct prologue),
               "sobel_step leaves no padding without a value");

static enum status sobel_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
    struct sobel sobel = {.magnitude = (enum sobel_magnitude)own->magnitude,
                          .border = (enum border)own->border};
    /* If the last pass is a table for colours, point_add_gray makes it also convert to gray. The
     * image between the two passes then has one channel. Otherwise point_lift takes the gray into
     * the prologue. A YCbCr JPEG may have been decoded as gray (plan_decode_as): the image then has
     * one channel, and point_add_gray adds nothing. */
    struct grayscale gray = grayscale_default(chain->background);
    point_add_gray(chain, &gray);
    const struct pass_shape to = point_lift(chain, &sobel.prologue);
    struct pass *pass =
        chain_add(chain, &types[sobel.prologue.looks_up], to, &sobel, sizeof(sobel));
    pass->work_bytes = prologue_is_empty(&sobel.prologue) ? 0 : 3 * window_pitch(to.width, 1, 0);
    return STATUS_OK;
}

const struct op op_sobel = {
    .name = "sobel",
    .help = "Finds the edges of gray with Sobel's 3 x 3 kernels",
    .definition = "Converts to gray first. With a b c / d e f / g h i around a pixel, Gx = "
                  "(a+2d+g) - (c+2f+i) and Gy = (a+2b+c) - (g+2h+i). half: min(255, (|Gx| + |Gy|) "
                  ">> 1); l1: min(255, |Gx| + |Gy|); l2: min(255, floor(sqrt(Gx^2 + Gy^2))). "
                  "reflect101 is OpenCV's default border.",
    .flags = OP_STARTS_GRAY,
    OP_PARAMS(struct params, sobel_params),
    .step = sobel_step,
};
