/* orient.c - the operations that only move pixels (flip, transpose, crop), the EXIF orientation,
 * and their CPU loops. */
#include "gpu/ops/orient.h"

#include <string.h>

#include "gpu/ops/deep.h"
#include "gpu/ops/gravity.h"
#include "gpu/ops/pixel.h"
#include "gpu/ops/resample.h"
#include "gpu/plan/op.h"

PIXEL void copy_run(const uint8_t *from, ptrdiff_t step, uint8_t *to, uint32_t count,
                    uint32_t channels)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t c = 0; c < channels; c++)
            to[(size_t)i * channels + c] = from[(ptrdiff_t)i * step + c];
}

/* Copies `count` pixels that are `step` bytes apart to adjacent places. */
static void gather(const uint8_t *from, ptrdiff_t step, uint8_t *to, uint32_t count,
                   uint32_t channels)
{
    BY_CHANNELS(channels, copy_run, from, step, to, count);
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

/* ---- axes swapped ---- */

/* Pixels are transposed in tiles with this side. A tile is first copied to a buffer in the L1
 * cache: at some widths, all rows of the source compete for the same few lines of the cache, so
 * that they could not be read down the columns. */
#define SIDE 64
/* Bytes between the rows of the buffer. No more than two rows begin in the same lines of the cache,
 * and four bytes may be read from the last pixel of RGB. */
#define PITCH(channels) (SIDE * (channels) + 16)

struct tile {
    const uint8_t *from; /* the row of the source that becomes the first column of the result */
    ptrdiff_t from_step; /* to the row that becomes the next column */
    uint8_t *to;         /* the row of the result that the first column of the source becomes */
    ptrdiff_t to_step;
    uint32_t across, down; /* in pixels of the result */
};

/* Of RGB, copies four bytes each. The next pixel overwrites the fourth. */
PIXEL void copy_column(const uint8_t *from, size_t step, uint8_t *to, uint32_t count,
                       size_t channels)
{
    uint32_t wide = channels == 3 ? count - 1 : 0;
    for (uint32_t i = 0; i < wide; i++)
        memcpy(to + i * channels, from + i * step, 4);
    for (uint32_t i = wide; i < count; i++)
        memcpy(to + i * channels, from + i * step, channels);
}

#define SQUARE 16

PIXEL void interleave(const uint8_t *restrict from, uint8_t *restrict to)
{
    for (size_t i = 0; i < SQUARE * SQUARE / 2; i++) {
        to[2 * i] = from[i];
        to[2 * i + 1] = from[SQUARE * SQUARE / 2 + i];
    }
}

/* Transposes SQUARE x SQUARE bytes. Each interleave() rotates the 8 bits of a byte's index by one,
 * and four of them exchange row and column. */
PIXEL void turn_square(const uint8_t *from, size_t step, uint8_t *to, ptrdiff_t to_step)
{
    uint8_t a[SQUARE * SQUARE], b[SQUARE * SQUARE];
    for (size_t i = 0; i < SQUARE; i++)
        memcpy(a + i * SQUARE, from + i * step, SQUARE);
    interleave(a, b);
    interleave(b, a);
    interleave(a, b);
    interleave(b, a);
    for (ptrdiff_t i = 0; i < SQUARE; i++)
        memcpy(to + i * to_step, a + i * SQUARE, SQUARE);
}

PIXEL void turn_run(const struct tile *tile, size_t channels)
{
    uint8_t rows[SIDE * PITCH(4)];
    size_t pitch = PITCH(channels);
    uint32_t across = tile->across, down = tile->down, y = 0;
    for (uint32_t x = 0; x < across; x++)
        memcpy(rows + x * pitch, tile->from + (ptrdiff_t)x * tile->from_step,
               (down == SIDE ? SIDE : down) * channels);
    for (; channels == 1 && across == SIDE && y + SQUARE <= down; y += SQUARE)
        for (uint32_t x = 0; x < SIDE; x += SQUARE)
            turn_square(rows + x * pitch + y, pitch, tile->to + (ptrdiff_t)y * tile->to_step + x,
                        tile->to_step);
    for (; y < down; y++)
        copy_column(rows + y * channels, pitch, tile->to + (ptrdiff_t)y * tile->to_step,
                    across == SIDE ? SIDE : across, channels);
}

VECTOR_CLONES
static void turn_tile(const struct tile *tile, uint32_t channels)
{
    BY_CHANNELS(channels, turn_run, tile);
}

static void orient_swapped(const struct pass *pass, const struct image *from,
                           const struct image *to)
{
    const struct orient *orient = (const struct orient *)pass->params;
    ptrdiff_t from_step = (ptrdiff_t)from->stride, to_step = (ptrdiff_t)to->stride;
    struct tile tile = {.from_step = orient->flip_y ? -from_step : from_step,
                        .to_step = orient->flip_x ? -to_step : to_step};
    for (uint32_t y = 0; y < to->height && !pass_is_late(pass); y += SIDE) {
        tile.down = to->height - y < SIDE ? to->height - y : SIDE;
        uint32_t source_x = orient->flip_x ? from->width - y - tile.down : y;
        uint32_t first_y = orient->flip_x ? y + tile.down - 1 : y;
        for (uint32_t x = 0; x < to->width; x += SIDE) {
            tile.across = to->width - x < SIDE ? to->width - x : SIDE;
            uint32_t source_y = orient->flip_y ? from->height - 1 - x : x;
            tile.from = from->pixels + source_y * from->stride + (size_t)source_x * from->channels;
            tile.to = to->pixels + first_y * to->stride + (size_t)x * from->channels;
            turn_tile(&tile, from->channels);
        }
    }
}

PASS_LOOP(orient_cpu)
{
    const struct orient *orient = (const struct orient *)pass->params;
    if (orient->swap)
        orient_swapped(pass, from, to);
    else
        orient_rows(pass, from, to);
}

pass_cuda_many orient_cuda;

/* ---- the passes ---- */

static const struct pass_type pass_orient = {"orient", orient_cpu,
                                             PASS_CUDA_MANY(orient_cuda, sizeof(struct orient))};

static const struct pass_type *orient_type(const struct chain *chain)
{
    return image_is_deep(chain->shape.channels) ? &pass_deep_orient : &pass_orient;
}

static void append(struct chain *chain, const struct orient *orient)
{
    struct pass_shape from = chain->shape;
    struct pass_shape swapped = {from.height, from.width, from.channels};
    struct pass_shape to = orient->swap ? swapped : from;
    chain_append(chain, orient_type(chain), to, orient, sizeof(*orient));
}

static void orient_add(struct chain *chain, const struct orient *orient)
{
    struct orient map = *orient;
    const struct pass *last = chain_last(chain, orient_type(chain));
    if (last) {
        /* Merges the last pass, `inner`, with this one. If `inner` swaps the axes, then a flip of
         * columns after it is the same as a flip of rows before it. */
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
    append(chain, &(struct orient){0, 0, 0});
}

/* Crops the current image to the rectangle whose top left pixel is (x, y). If the last pass mirrors
 * or rotates, the crop is moved before it, so that the pass reads fewer pixels; a resize computes
 * only the rectangle. */
static enum status add_crop(struct chain *chain, uint32_t x, uint32_t y, uint32_t width,
                            uint32_t height)
{
    enum status status = STATUS_OK;
    assert(width >= 1 && height >= 1);
    assert(x + width <= chain->shape.width && y + height <= chain->shape.height);
    struct orient orient = {0, 0, 0};
    const struct pass *last = chain_last(chain, orient_type(chain));
    if (last) {
        orient = *(const struct orient *)last->params;
        uint32_t across = orient.swap ? y : x, down = orient.swap ? x : y;
        uint32_t columns = orient.swap ? height : width, rows = orient.swap ? width : height;
        x = orient.flip_x ? last->from.width - across - columns : across;
        y = orient.flip_y ? last->from.height - down - rows : down;
        width = columns;
        height = rows;
        chain_drop(chain);
    }
    if (!resize_crop(chain, x, y, width, height, &status)) {
        chain->window.x += x;
        chain->window.y += y;
        chain->shape.width = width;
        chain->shape.height = height;
    }
    orient_add(chain, &orient);
    return status;
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

/* ---- flip ---- */

struct flip {
    int axis; /* 0: horizontal */
};

static const struct op_param flip_params[] = {
    {OP_WORD(struct flip, axis), .words = (const char *const[]){"horizontal", "vertical", NULL},
     .help = "horizontal exchanges left and right, vertical exchanges top and bottom"}};

static enum status flip_step(const void *params, struct chain *chain)
{
    step_orient(chain, ((const struct flip *)params)->axis == 0 ? MIRRORED : UPSIDE_DOWN);
    return STATUS_OK;
}

const struct op op_flip = {
    .name = "flip",
    .help = "Mirrors left and right, or top and bottom",
    .definition = "For a source of w x h, the pixel (x, y) is the source's (w-1-x, y) for "
                  "horizontal and (x, h-1-y) for vertical. As Pillow's `FLIP_LEFT_RIGHT` and "
                  "`FLIP_TOP_BOTTOM`, and OpenCV's `flip` with 1 and 0.",
    .flags = OP_MOVES | OP_DEEP,
    OP_PARAMS(struct flip, flip_params),
    .step = flip_step,
};

/* ---- transpose ---- */

static enum status transpose_step(const void *params, struct chain *chain)
{
    (void)params;
    step_orient(chain, TRANSPOSED);
    return STATUS_OK;
}

const struct op op_transpose = {
    .name = "transpose",
    .help = "Exchanges rows and columns",
    .definition = "The pixel (x, y) is the source's (y, x). As OpenCV's `transpose` and Pillow's "
                  "`TRANSPOSE`.",
    .flags = OP_MOVES | OP_DEEP,
    .step = transpose_step,
};

/* ---- crop ---- */

struct crop {
    int x, y, width, height;
    int gravity; /* enum gravity; -1: x and y are given */
};

static const struct op_param crop_params[] = {
    {OP_INTEGER(struct crop, width), .need = OP_REQUIRED, .min = 1, .max = SIDE_CEILING},
    {OP_INTEGER(struct crop, height), .need = OP_REQUIRED, .min = 1, .max = SIDE_CEILING},
    {OP_INTEGER(struct crop, x), .need = OP_OPTIONAL, .max = SIDE_CEILING - 1,
     .help = "The rectangle's first column; requires `y`, not allowed with `gravity`"},
    {OP_INTEGER(struct crop, y), .need = OP_OPTIONAL, .max = SIDE_CEILING - 1,
     .help = "The rectangle's first row"},
    {OP_WORD(struct crop, gravity), .words = GRAVITY_WORDS,
     .help = "The side or corner of the image where the rectangle is"}};

static enum status crop_check(const struct op_item *item, void *params, struct error *error)
{
    struct crop *own = params;
    bool x = op_given(item, "x"), y = op_given(item, "y");
    if (x != y)
        return op_refuse(item, error, " has %s without %s", x ? "x" : "y", x ? "y" : "x");
    if (x && op_given(item, "gravity"))
        return op_refuse(item, error, " has x, y and gravity; remove gravity, or x and y");
    if (x)
        own->gravity = -1;
    return STATUS_OK;
}

/* Checks that the pixels start to start + length - 1 are within a side of the image. */
static enum status check_side(const struct chain *chain, const char *start_name, int start,
                              const char *length_name, int length, int side)
{
    const struct pass_shape *shape = &chain->shape;
    if (length > side)
        return op_refuse(chain->item, chain->error,
                         ": %s is %d; the image is %u x %u at this operation", length_name, length,
                         shape->width, shape->height);
    if (start + length > side)
        return op_refuse(chain->item, chain->error,
                         ": %s %d + %s %d is %d; the image is %u x %u at this operation",
                         start_name, start, length_name, length, start + length, shape->width,
                         shape->height);
    return STATUS_OK;
}

static enum status crop_step(const void *params, struct chain *chain)
{
    const struct crop *own = params;
    int width = (int)chain->shape.width, height = (int)chain->shape.height;
    int64_t x = own->x, y = own->y;
    enum status status = check_side(chain, "x", own->x, "width", own->width, width);
    if (!status)
        status = check_side(chain, "y", own->y, "height", own->height, height);
    if (status)
        return status;
    if (own->gravity >= 0)
        gravity_offset((enum gravity)own->gravity, width, height, own->width, own->height, &x, &y);
    return add_crop(chain, (uint32_t)x, (uint32_t)y, (uint32_t)own->width, (uint32_t)own->height);
}

const struct op op_crop = {
    .name = "crop",
    .help = "Cuts out a rectangle, which must be inside the image",
    .definition = "The rectangle starts at column x and row y, or is at a side or corner of the "
                  "image. In the middle of a side it starts at floor((side - length) / 2). "
                  "Nothing is copied: the next operation reads the rectangle in place. In a "
                  "job with one output, a resize of both sides before it usually computes only the "
                  "rectangle.",
    .flags = OP_MOVES | OP_DEEP,
    OP_PARAMS(struct crop, crop_params),
    .check = crop_check,
    .step = crop_step,
};
