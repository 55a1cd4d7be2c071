/* canny.c - the canny operation and its CPU loops. */
#include "gpu/ops/canny.h"

#include <math.h>
#include <string.h>

#include "gpu/ops/point.h"
#include "gpu/ops/window.h"
#include "gpu/plan/op.h"

/* ---- the work space ---- */

/* Bytes of a row of gradients, which has a column of zeros on either side. */
static size_t gradient_pitch(uint32_t width)
{
    return image_stride(width + 2, sizeof(uint16_t));
}

#define GRADIENT_ROWS 3

static size_t rows_bytes(uint32_t width)
{
    return window_bytes(width, 1, 1, 1) + GRADIENT_ROWS * gradient_pitch(width);
}

/* The CPU needs memory for rows, and then a stack with one word per 2 x 2 block. The device needs
 * no rows; it has a label per block, and one word more, for which the memory of the rows is
 * enough. */
static size_t work_bytes(uint32_t width, uint32_t height)
{
    return rows_bytes(width) +
           (size_t)canny_blocks(width) * canny_blocks(height) * sizeof(uint32_t);
}

/* ---- gradients and marks ---- */

/* Computes the gradients of a row from three rows of gray, which start one column before the
 * image. */
VECTOR_CLONES
static void gradient_row(const uint8_t *restrict a, const uint8_t *restrict m,
                         const uint8_t *restrict b, uint16_t *restrict to, size_t width)
{
    for (size_t x = 0; x < width; x++)
        to[x + 1] = canny_gradient(sobel_gx(a, m, b, x, x + 2), sobel_gy(a, b, x, x + 1, x + 2));
}

VECTOR_CLONES
static void mark_row(const uint16_t *restrict a, const uint16_t *restrict m,
                     const uint16_t *restrict b, uint8_t *restrict to, size_t width, int low,
                     int high)
{
    for (size_t x = 0; x < width; x++) {
        uint16_t a0 = a[x], a1 = a[x + 1], a2 = a[x + 2], m0 = m[x], m1 = m[x + 1];
        uint16_t m2 = m[x + 2], b0 = b[x], b1 = b[x + 1], b2 = b[x + 2];
        int sector = m1 & CANNY_SECTOR_MASK;
        uint16_t before = sector == CANNY_FALLING ? a0 : a2;
        uint16_t after = sector == CANNY_FALLING ? b2 : b0;
        before = sector == CANNY_DOWN ? a1 : before;
        after = sector == CANNY_DOWN ? b1 : after;
        before = sector == CANNY_ACROSS ? m0 : before;
        after = sector == CANNY_ACROSS ? m2 : after;
        to[x] = canny_mark(m1, before, after, low, high);
    }
}

/* Writes the marks of all pixels to the output image. */
static void mark(const struct pass *pass, const struct image *from, const struct image *to,
                 uint8_t *work)
{
    const struct canny *canny = (const struct canny *)pass->params;
    size_t pitch = gradient_pitch(from->width);
    uint8_t *rows = work + window_bytes(from->width, 1, 1, 1);
    uint16_t *above = (uint16_t *)rows, *own = (uint16_t *)(rows + pitch);
    uint16_t *below = (uint16_t *)(rows + 2 * pitch);
    struct window window;
    window_open(&window, from, &canny->prologue, BORDER_REPLICATE, 1, 1, work);
    memset(rows, 0, GRADIENT_ROWS * pitch);
    /* The marks of row y - 1 need the gradients of row y. */
    for (int y = 0; y <= (int)from->height && !pass_is_late_at(pass, (uint32_t)y); y++) {
        if (y < (int)from->height) {
            const uint8_t *a = window_row(&window, y, -1) - 1, *m = window_row(&window, y, 0) - 1;
            gradient_row(a, m, window_row(&window, y, 1) - 1, below, from->width);
        } else {
            memset(below, 0, pitch);
        }
        if (y > 0)
            mark_row(above, own, below, to->pixels + (size_t)(y - 1) * to->stride, from->width,
                     canny->low, canny->high);
        uint16_t *free_row = above;
        above = own;
        own = below;
        below = free_row;
    }
}

/* ---- hysteresis ---- */

/* A stack of blocks whose marked pixels are edges and whose neighbours are not yet visited. Each
 * block is pushed at most once. */
struct fill {
    const struct image *image;
    uint32_t *stack;
    size_t count;
    uint32_t across; /* blocks per row */
};

/* NULL: the pixel is outside of the image; so are coordinates of -1, which wrap around. */
static uint8_t *pixel_at(const struct fill *fill, uint32_t x, uint32_t y)
{
    const struct image *image = fill->image;
    return x < image->width && y < image->height ? image->pixels + y * image->stride + x : NULL;
}

static bool is_marked(const struct fill *fill, uint32_t x, uint32_t y)
{
    const uint8_t *pixel = pixel_at(fill, x, y);
    return pixel && *pixel != CANNY_NONE;
}

/* If the pixel is marked and not yet an edge, makes all marked pixels of its block edges, and
 * pushes the block. */
static void reach(struct fill *fill, uint32_t x, uint32_t y)
{
    const uint8_t *pixel = pixel_at(fill, x, y);
    if (!pixel || *pixel == CANNY_NONE || *pixel == CANNY_EDGE)
        return;
    uint32_t left = x & ~1u, top = y & ~1u;
    for (uint32_t i = 0; i < 4; i++)
        if (is_marked(fill, left + i % 2, top + i / 2))
            *pixel_at(fill, left + i % 2, top + i / 2) = CANNY_EDGE;
    fill->stack[fill->count++] = y / 2 * fill->across + x / 2;
}

/* Reaches the pixels around a block that touch a marked pixel of it: five for each marked pixel. */
static void reach_around(struct fill *fill, uint32_t block)
{
    uint32_t x = block % fill->across * 2, y = block / fill->across * 2;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t beside = i % 2 ? x + 2 : x - 1, beyond = i / 2 ? y + 2 : y - 1;
        if (!is_marked(fill, x + i % 2, y + i / 2))
            continue;
        reach(fill, x, beyond);
        reach(fill, x + 1, beyond);
        reach(fill, beside, y);
        reach(fill, beside, y + 1);
        reach(fill, beside, beyond);
    }
}

/* Number of blocks between two reads of the clock. */
#define BLOCKS_PER_LOOK 65536

/* Makes edges of all pixels that are connected to a strong one. */
static void spread(const struct pass *pass, const struct image *image, uint32_t *stack)
{
    size_t looked_at = 0;
    struct fill fill = {image, stack, 0, canny_blocks(image->width)};
    for (uint32_t y = 0; y < image->height && !pass_is_late_at(pass, y); y++) {
        const uint8_t *row = image->pixels + y * image->stride, *end = row + image->width;
        const uint8_t *at = row;
        while (at < end && (at = memchr(at, CANNY_STRONG, (size_t)(end - at)))) {
            reach(&fill, (uint32_t)(at - row), y);
            while (fill.count > 0) {
                if (++looked_at % BLOCKS_PER_LOOK == 0 && pass_is_late(pass))
                    return; /* uncovered: moment */
                reach_around(&fill, fill.stack[--fill.count]);
            }
        }
    }
}

VECTOR_CLONES
static void keep_edges(uint8_t *row, size_t width)
{
    for (size_t x = 0; x < width; x++)
        row[x] = row[x] == CANNY_EDGE ? 255 : 0;
}

PASS_LOOP(canny_cpu)
{
    mark(pass, from, to, work);
    spread(pass, to, (uint32_t *)(work + rows_bytes(from->width)));
    for (uint32_t y = 0; y < to->height && !pass_is_late_at(pass, y); y++)
        keep_edges(to->pixels + y * to->stride, to->width);
}

pass_cuda canny_cuda;

/* Without and with the prologue's table. Both make gray of colours. */
static const struct pass_type types[] = {{"canny", canny_cpu, PASS_CUDA(canny_cuda)},
                                         {"table+canny", canny_cpu, PASS_CUDA(canny_cuda)}};

/* ---- the operation ---- */

struct params {
    double low, high;
};

static const struct op_param canny_params[] = {
    {OP_NUMBER(struct params, low), .max = CANNY_LENGTH_MAX, .standard = 50,
     .help = "The gradient above which a pixel can be part of an edge; not above `high`"},
    {OP_NUMBER(struct params, high), .max = CANNY_LENGTH_MAX, .standard = 150,
     .help = "The gradient above which a pixel starts an edge"}};

static enum status canny_check(const struct op_item *item, void *params, struct error *error)
{
    const struct params *own = params;
    if (own->low <= own->high)
        return STATUS_OK;
    return op_refuse(item, error, ": low is %.10g and high is %.10g; low must not be above high",
                     own->low, own->high);
}

static enum status canny_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
    struct grayscale gray = grayscale_default(chain->background);
    struct canny canny = {.low = (int)floor(own->low), .high = (int)floor(own->high)};
    point_add_gray(chain, &gray);
    const struct pass_shape to = point_lift(chain, &canny.prologue);
    struct pass *pass =
        chain_add(chain, &types[canny.prologue.looks_up], to, &canny, sizeof(canny));
    pass->work_bytes = work_bytes(pass->to.width, pass->to.height);
    return STATUS_OK;
}

const struct op op_canny = {
    .name = "canny",
    .help = "Sets thin edges of gray to 255, all else to 0, as OpenCV's Canny with aperture 3",
    .definition = "Converts to gray first. Equal to OpenCV's `Canny` with aperture 3 and without "
                  "L2gradient. Fractions of low and high are dropped. Gx and Gy are those of "
                  "`sobel` with border replicate; m = |Gx| + |Gy|, and 0 outside. A pixel with m "
                  "> low is marked if m is a peak, with t = 13573 / 32768: for |Gy| < t |Gx|, if "
                  "m > m(left) and m >= m(right); for |Gy| > (t + 2) |Gx|, if m > m(above) and m "
                  ">= m(below); otherwise, if m exceeds both m(above left) and m(below right), "
                  "or, if Gx and Gy differ in sign, both m(above right) and m(below left). Edges "
                  "are the marked pixels that are connected, by sides or corners, through marked "
                  "pixels to a marked pixel with m > high. Work space: one byte per pixel.",
    .flags = OP_STARTS_GRAY,
    OP_PARAMS(struct params, canny_params),
    .check = canny_check,
    .step = canny_step,
};
