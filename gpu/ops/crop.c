/*
 * crop.c - the crop operation.
 *
 * A crop computes nothing. The next pass reads the rectangle in place (gpu/plan/pass.h). If no
 * operation follows, the rectangle of the decoded image is encoded in place.
 */
#include "gpu/ops/orient.h"
#include "gpu/plan/op.h"

/* By gravity: how many halves of the remaining columns and rows precede the rectangle. */
static const uint8_t halves[][2] = {{1, 1}, {1, 0}, {2, 0}, {2, 1}, {2, 2},
                                    {1, 2}, {0, 2}, {0, 1}, {0, 0}};

struct params {
    int x, y, width, height;
    int gravity; /* index into its words; -1: x and y are given */
};

static const struct op_param crop_params[] = {
    {OP_INTEGER(struct params, width), .need = OP_REQUIRED, .min = 1, .max = SIDE_CEILING},
    {OP_INTEGER(struct params, height), .need = OP_REQUIRED, .min = 1, .max = SIDE_CEILING},
    {OP_INTEGER(struct params, x), .need = OP_OPTIONAL, .max = SIDE_CEILING - 1,
     .help = "The rectangle's first column; requires `y` and excludes `gravity`"},
    {OP_INTEGER(struct params, y), .need = OP_OPTIONAL, .max = SIDE_CEILING - 1,
     .help = "The rectangle's first row"},
    {OP_WORD(struct params, gravity),
     .words = (const char *const[]){"center", "north", "northeast", "east", "southeast", "south",
                                    "southwest", "west", "northwest", NULL},
     .help = "The side or corner of the image where the rectangle is"},
    {.name = NULL}};

static enum status crop_check(const struct op_item *item, void *params)
{
    struct params *own = params;
    bool x = op_given(item, "x"), y = op_given(item, "y");
    if (x != y)
        return op_refuse(item, " has %s without %s", x ? "x" : "y", x ? "y" : "x");
    if (x && op_given(item, "gravity"))
        return op_refuse(item, " has x and y, and gravity; it must have only one of them");
    if (x)
        own->gravity = -1;
    return STATUS_OK;
}

/* Checks that start..start + length - 1 is within one dimension of the image. */
static enum status check_side(const struct chain *chain, const char *start_name, int start,
                              const char *length_name, int length, int side)
{
    const struct pass_shape *shape = &chain->shape;
    if (length > side)
        return op_refuse(chain->item, ": %s is %d; the image is %u x %u there", length_name,
                         length, shape->width, shape->height);
    if (start + length > side)
        return op_refuse(chain->item, ": %s %d + %s %d is %d; the image is %u x %u there",
                         start_name, start, length_name, length, start + length, shape->width,
                         shape->height);
    return STATUS_OK;
}

static enum status crop_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
    int width = (int)chain->shape.width, height = (int)chain->shape.height, x = own->x, y = own->y;
    enum status status = check_side(chain, "x", x, "width", own->width, width);
    if (!status)
        status = check_side(chain, "y", y, "height", own->height, height);
    if (status)
        return status;
    if (own->gravity >= 0) {
        x = (width - own->width) * halves[own->gravity][0] / 2;
        y = (height - own->height) * halves[own->gravity][1] / 2;
    }
    orient_crop(chain, (uint32_t)x, (uint32_t)y, (uint32_t)own->width, (uint32_t)own->height);
    return STATUS_OK;
}

const struct op op_crop = {
    .name = "crop",
    .help = "Cuts out a rectangle, which must be inside the image",
    .definition = "The rectangle starts at column x and row y, or is at a side or corner of the "
                  "image. In the middle of a side it starts at floor((side - length) / 2). "
                  "Nothing is copied: the next operation reads the rectangle in place.",
    .flags = OP_MOVES,
    .params = crop_params,
    .check = crop_check,
    .step = crop_step,
};
