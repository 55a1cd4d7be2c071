/*
 * crop.c - a rectangle of the image: the operation.
 *
 * It computes nothing: the next pass reads the rectangle where it lies (gpu/plan/pass.h), and a
 * rectangle of the decoded image that nothing follows is encoded from there.
 */
#include "gpu/plan/op.h"

static const char *const gravities[] = {"center",    "north", "northeast", "east",     "southeast",
                                        "south",     "southwest", "west",  "northwest", NULL};
/* Of what is left over, how many halves lie before the rectangle. */
static const uint8_t halves[][2] = {{1, 1}, {1, 0}, {2, 0}, {2, 1}, {2, 2},
                                    {1, 2}, {0, 2}, {0, 1}, {0, 0}};

struct params {
    int64_t x, y, width, height;
    int gravity; /* an index of gravities; -1: x and y are given */
};

static enum status crop_parse(const struct op_item *item, void *params)
{
    struct params *own = params;
    bool x = op_given(item, "x"), y = op_given(item, "y");
    own->gravity = x || y ? -1 : 0;
    if (!op_given(item, "width") || !op_given(item, "height"))
        return error_set(item->error, STATUS_BAD_OP, "%s needs width and height", item->place);
    if (x != y)
        return error_set(item->error, STATUS_BAD_OP, "%s has %s without %s", item->place,
                         x ? "x" : "y", x ? "y" : "x");
    if (x && op_given(item, "gravity"))
        return error_set(item->error, STATUS_BAD_OP,
                         "%s has x and y, and gravity; it takes one or the other", item->place);
    enum status status = op_integer(item, "x", 0, SIDE_CEILING - 1, &own->x);
    if (!status)
        status = op_integer(item, "y", 0, SIDE_CEILING - 1, &own->y);
    if (!status)
        status = op_integer(item, "width", 1, SIDE_CEILING, &own->width);
    if (!status)
        status = op_integer(item, "height", 1, SIDE_CEILING, &own->height);
    return status ? status : op_word(item, "gravity", gravities, &own->gravity);
}

/* Whether start..start + length - 1 lies within a side of the image. */
static enum status check_side(const struct op_item *item, const char *start_name, int64_t start,
                              const char *length_name, int64_t length,
                              const struct pass_shape *shape, int64_t side)
{
    if (length > side)
        return error_set(item->error, STATUS_BAD_OP, "%s: %s is %lld; the image is %u x %u there",
                         item->place, length_name, (long long)length, shape->width,
                         shape->height);
    if (start + length > side)
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: %s %lld + %s %lld is %lld; the image is %u x %u there", item->place,
                         start_name, (long long)start, length_name, (long long)length,
                         (long long)(start + length), shape->width, shape->height);
    return STATUS_OK;
}

static enum status crop_step(const struct op_item *item, const void *params, struct chain *chain)
{
    const struct params *own = params;
    const struct pass_shape *shape = &chain->shape;
    int64_t x = own->x, y = own->y;
    enum status status = check_side(item, "x", x, "width", own->width, shape, shape->width);
    if (!status)
        status = check_side(item, "y", y, "height", own->height, shape, shape->height);
    if (status)
        return status;
    if (own->gravity >= 0) {
        x = (shape->width - own->width) * halves[own->gravity][0] / 2;
        y = (shape->height - own->height) * halves[own->gravity][1] / 2;
    }
    chain_crop(chain, (uint32_t)x, (uint32_t)y, (uint32_t)own->width, (uint32_t)own->height);
    return STATUS_OK;
}

static const char *const names[] = {"x", "y", "width", "height", "gravity", NULL};
const struct op op_crop = {"crop", names, crop_parse, crop_step, NULL};
